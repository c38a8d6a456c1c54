// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// foregroundOf returns the terminal of stdin if this process group is in its foreground,
// and nil otherwise. A command that reads from the terminal must be there, or the terminal
// stops it.
func foregroundOf(stdin io.Reader) *os.File {
	f, ok := stdin.(*os.File)
	if !ok || !isTerminal(f) {
		return nil
	}
	var owner int32
	if ioctl(f, syscall.TIOCGPGRP, &owner) != 0 || int(owner) != syscall.Getpgrp() {
		return nil
	}
	return f
}

// outliveWarnings makes a write to a terminal whose foreground this process group is not in succeed. With "stty tostop", the terminal
// otherwise stops this process: heartbeats end, and the command works on without the hold. A command inherits what is ignored: call it
// after its start.
func outliveWarnings() { signal.Ignore(syscall.SIGTTOU) }

// reclaim puts this process group in the foreground of the terminal again.
func reclaim(terminal *os.File) {
	if terminal == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU) // which stops a background process that does this
	own := int32(syscall.Getpgrp())
	_ = ioctl(terminal, syscall.TIOCSPGRP, &own)
}

func ioctl(f *os.File, request uintptr, group *int32) syscall.Errno {
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), request, uintptr(unsafe.Pointer(group)))
	return errno
}
