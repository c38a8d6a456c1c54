// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"slices"
	"strings"
)

// The errors of attempts and releases, as a history records them.
const (
	heldByAnother = "held by another"
	timedOut      = "context deadline exceeded"
	lostBefore    = "claim lost"
	uncertain     = "outcome unknown"
	shut          = "client closed"
	cancelled     = "cancelled" // by the worker itself
	revoked       = "revoked"   // by an administrator of the lock service
)

// MayFail reports whether an attempt of this library may fail with an error, given the text of its Asked event. Any other error
// is a problem of the run.
func MayFail(asked, why string) bool {
	switch why {
	case heldByAnother:
		return strings.HasPrefix(asked, "try")
	case timedOut:
		return strings.Contains(asked, ", for ")
	}
	return slices.Contains([]string{lostBefore, uncertain, shut, cancelled, revoked}, why)
}

// MayFailRelease reports whether a release of this library may return an error.
func MayFailRelease(why string) bool {
	return slices.Contains([]string{lostBefore, uncertain, shut, revoked}, why)
}
