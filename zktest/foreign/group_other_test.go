// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package foreign

import "os/exec"

// inOneGroup does nothing: only Unix has groups of processes, and elsewhere the process alone is killed.
func inOneGroup(*exec.Cmd) {}
