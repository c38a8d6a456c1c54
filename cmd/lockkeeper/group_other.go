// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"os"
	"os/exec"
)

// A group is a command, by its process id: this system has no process groups.
type group int

// prepare does nothing.
func prepare(*exec.Cmd, *os.File) {}

// send does nothing: this system sends no signals between processes.
func (g group) send(os.Signal) {}

// terminate does nothing: kill follows.
func (g group) terminate() {}

// kill kills the command, and no process that it started.
func (g group) kill() {
	if p, err := os.FindProcess(int(g)); err == nil {
		_ = p.Kill()
	}
}

// end does nothing: the command has ended.
func (g group) end() {}
