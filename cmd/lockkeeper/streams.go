// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// outliveReaders makes a write to a standard output or error that no process reads any more return an error. Otherwise it ends this
// process, by SIGPIPE. A command that this process starts gets the default of SIGPIPE.
func outliveReaders() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
