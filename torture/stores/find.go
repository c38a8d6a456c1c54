// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// ErrNotInstalled is matched by the error of a start whose program is not on this machine.
var ErrNotInstalled = errors.New("not installed: `make stores` installs it, or says how")

// find returns where a server's program is. Distributions keep some out of PATH.
func find(program string) (string, error) {
	if file, err := exec.LookPath(program); err == nil {
		return file, nil
	}
	places := []string{filepath.Join("/usr/sbin", program)}
	versions, err := filepath.Glob(filepath.Join("/usr/lib/postgresql/*/bin", program))
	if err != nil {
		return "", err
	}
	slices.Reverse(versions) // the newest first
	for _, file := range append(places, versions...) {
		if _, err := exec.LookPath(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s is %w", program, ErrNotInstalled)
}
