// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package foreign

import "os/exec"

// inOneGroup has no effect: only Unix has process groups. Elsewhere only the process itself is killed.
func inOneGroup(*exec.Cmd) {}
