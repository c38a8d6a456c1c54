// SPDX-License-Identifier: Apache-2.0

package torture

import "syscall"

// dieWithParent makes the kernel kill a process when its parent dies, however it dies.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
