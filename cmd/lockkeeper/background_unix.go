// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// failBackgroundReads makes a read fail if the terminal belongs to another process group.
// Otherwise the terminal stops the process if it is started in the background of a shell,
// as servers often are.
func failBackgroundReads() { signal.Ignore(syscall.SIGTTIN) }
