// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Of the systems without namespaces some have these signals, but none has what
// the faults are mostly wanted for: links to cut.
var stopSignal, contSignal os.Signal

// dieWithParent does nothing: only Linux can, and elsewhere a killed test run
// leaves its servers behind.
func dieWithParent(*exec.Cmd) {}

func canWire() error { return errors.New("network namespaces exist on Linux only") }

func mountMemory(string, int64) error {
	return fmt.Errorf("file systems in memory are mounted on Linux only: %w", ErrUnsupported)
}

func unmount(string) error { return nil }
