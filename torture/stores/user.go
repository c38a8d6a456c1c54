// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
)

// A user is whom a server runs as.
type user struct{ uid, gid uint32 }

// unprivileged returns nobody when we are root, and nil, which is ourselves, when we are not.
func unprivileged() (*user, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := osuser.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("whom to run it as: %w", err)
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("whom to run it as: %w", err)
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("whom to run it as: %w", err)
	}
	return &user{uint32(uid), uint32(gid)}, nil
}
