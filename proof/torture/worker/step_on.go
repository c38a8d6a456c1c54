// SPDX-License-Identifier: Apache-2.0

//go:build unix && stepclock

package worker

import "time"

// stepWall steps this process's wall clock, by whole seconds. It is built with the package time of torture.BuildStepping.
func stepWall(by time.Duration) { time.WallStep.Add(int64(by / time.Second)) }
