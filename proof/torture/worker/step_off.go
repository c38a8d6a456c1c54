// SPDX-License-Identifier: Apache-2.0

//go:build unix && !stepclock

package worker

import "time"

// stepWall does nothing: this process's wall clock cannot be stepped, see torture.BuildStepping.
func stepWall(time.Duration) {}
