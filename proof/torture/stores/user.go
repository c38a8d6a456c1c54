// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"fmt"
	"os"
	osuser "os/user"
	"strconv"
)

// A user is the user as which a server runs.
type user struct{ uid, gid uint32 }

// unprivileged returns the user "nobody" if this process runs as root, otherwise nil: the server then runs as the same user.
func unprivileged() (*user, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := osuser.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("find the user to run the server as: %w", err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("find the user to run the server as: %w", err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("find the user to run the server as: %w", err)
	}
	return &user{uint32(uid), uint32(gid)}, nil
}
