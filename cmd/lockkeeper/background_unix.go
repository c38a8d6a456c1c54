// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// leaveUnread has a read of a terminal that belongs to another process group fail:
// otherwise whoever starts this in the background of a shell, as servers are, has it
// stopped.
func leaveUnread() { signal.Ignore(syscall.SIGTTIN) }
