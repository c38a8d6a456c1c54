// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"io"
	"os"
)

// foregroundOf returns nil: this system has no foreground process group.
func foregroundOf(io.Reader) *os.File { return nil }

// outliveWarnings does nothing: no terminal stops processes here.
func outliveWarnings() {}

// reclaim does nothing.
func reclaim(*os.File) {}
