// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package torture

import "syscall"

// dieWithParent would have contenders end with a harness that is killed. Here they notice that nobody speaks to them.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
