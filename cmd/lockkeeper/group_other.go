// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// A group is a command, by its process id: this system has no process groups.
type group int

// prepare does nothing.
func prepare(*exec.Cmd, *os.File) {}

// notifyStops does nothing: no terminal stops processes here.
func notifyStops(chan<- os.Signal) {}

// forward does nothing: this system sends no signals between processes.
func (g group) forward(os.Signal) error { return nil }

// terminate does nothing: kill follows.
func (g group) terminate() error { return nil }

// kill kills the command, and no process that it started.
func (g group) kill() error {
	p, err := os.FindProcess(int(g))
	if err != nil {
		return nil // it has ended
	}
	if err := p.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", g, err)
	}
	return nil
}

// end does nothing: the command has ended.
func (g group) end(func(error)) {}
