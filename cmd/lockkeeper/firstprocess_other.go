// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// forwardedSignals returns nil: there is no guardian here.
func forwardedSignals() []os.Signal { return nil }

// runFirst returns [errors.ErrUnsupported].
func runFirst(*exec.Cmd, <-chan os.Signal) (status int, err error) { return 0, errors.ErrUnsupported }
