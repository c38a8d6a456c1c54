// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

func separate(*exec.Cmd) {}

func stopProcess(*os.Process) error {
	return fmt.Errorf("this system cannot stop a process: %w", errors.ErrUnsupported)
}

func continueProcess(*os.Process) error { return errors.ErrUnsupported }
