// SPDX-License-Identifier: Apache-2.0

package main

// An end is the exit status of a command that has ended, or an error of the wait for it.
type end struct {
	status int
	err    error
}
