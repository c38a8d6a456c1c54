// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"slices"
	"strings"
)

// Errors of attempts and releases, as a history records them.
const (
	heldByAnother = "held by another"
	timedOut      = "context deadline exceeded"
	lostBefore    = "claim lost"
	uncertain     = "outcome unknown"
	shut          = "client closed"
	cancelled     = "cancelled" // by the worker itself
)

// MayFail reports whether an attempt may fail with an error, given the text of its Asked event. This library should return no
// other errors.
func MayFail(asked, why string) bool {
	switch why {
	case heldByAnother:
		return asked == "try"
	case timedOut:
		return strings.Contains(asked, ", for ")
	}
	return slices.Contains([]string{lostBefore, uncertain, shut, cancelled}, why)
}

// MayFailRelease reports whether a caller of this library may get an error from a release.
func MayFailRelease(why string) bool {
	return slices.Contains([]string{lostBefore, uncertain, shut}, why)
}
