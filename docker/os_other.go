// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package docker

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Some of these systems have the signals, but none has network namespaces, which most faults
// need.
var stopSignal, contSignal os.Signal

// killWithParent does nothing: only Linux has that, and elsewhere the servers of a killed test
// run remain.
func killWithParent(*exec.Cmd) {}

// endWithContext is needed for apt-get only, which Linux has.
func endWithContext(*exec.Cmd) {}

func namespacesAvailable() error { return errors.New("network namespaces exist on Linux only") }

func mountMemory(string, int64) error {
	return fmt.Errorf("file systems in memory are mounted on Linux only: %w", ErrUnsupported)
}

func unmount(string) error { return nil }
