// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package lab

import "os/exec"

// setGroup does nothing: this system has no process groups, and pauses no contender.
func setGroup(*exec.Cmd) {}
