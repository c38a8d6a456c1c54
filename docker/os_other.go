// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Some systems without namespaces have these signals, but none has links that can be
// partitioned, which most faults need.
var stopSignal, contSignal os.Signal

// dieWithParent does nothing: only Linux supports it. Elsewhere a killed test run leaves
// its servers behind.
func dieWithParent(*exec.Cmd) {}

func canWire() error { return errors.New("network namespaces exist on Linux only") }

func mountMemory(string, int64) error {
	return fmt.Errorf("file systems in memory are mounted on Linux only: %w", ErrUnsupported)
}

func unmount(string) error { return nil }
