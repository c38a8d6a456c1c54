// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"os/exec"
)

// waitForAll waits for the end of a command: this system gives no process the orphans of another one.
func waitForAll(cmd *exec.Cmd) end {
	err := cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return end{status: exit.ExitCode()}
	}
	return end{err: err}
}
