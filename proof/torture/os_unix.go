// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package torture

import "syscall"

// dieWithParent does nothing here: contenders notice the death of the harness by the end of their standard input.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
