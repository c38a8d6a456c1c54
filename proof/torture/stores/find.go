// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
)

// ErrNotInstalled reports that the program of a server is not installed on this machine.
var ErrNotInstalled = errors.New("not installed: `make stores` installs it, or prints how")

// find returns the path of a server's program. Distributions install some outside PATH.
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
