// SPDX-License-Identifier: Apache-2.0

//go:build !race

package need

// RaceDetector reports whether the race detector is enabled.
const RaceDetector = false
