// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package main

import (
	"os/exec"
	"os/signal"
	"syscall"
)

// prepareSystem does nothing: only Linux kills a command with its parent.
func prepareSystem(*exec.Cmd) {}

// isIgnored reports whether this process ignores a signal. Go knows that of few signals that the parent process has set to be ignored.
func isIgnored(s syscall.Signal) bool { return signal.Ignored(s) }
