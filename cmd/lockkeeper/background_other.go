// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

// leaveUnread does nothing: there is no background that a terminal would stop.
func leaveUnread() {}
