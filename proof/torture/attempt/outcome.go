// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// The errors of attempts and releases, as a history records them.
const (
	HeldByAnother = "held by another"
	TimedOut      = "context deadline exceeded"
	LostBefore    = "claim lost"
	Uncertain     = "outcome unknown"
	Shut          = "client closed"
	Cancelled     = "Cancelled" // by the worker itself
	Revoked       = "Revoked"   // by an administrator of the lock service
)

// MayFail reports whether an attempt of this library may fail with an error, given the text of its Asked event. Any other error
// is a problem of the run.
func MayFail(asked, why string) bool {
	switch why {
	case HeldByAnother:
		return strings.HasPrefix(asked, "try")
	case TimedOut:
		return strings.Contains(asked, ", for ")
	}
	return slices.Contains([]string{LostBefore, Uncertain, Shut, Cancelled, Revoked}, why)
}

// MayFailRelease reports whether a release of this library may return an error.
func MayFailRelease(why string) bool {
	return slices.Contains([]string{LostBefore, Uncertain, Shut, Revoked}, why)
}

// Unexpected returns the errors in a history that no caller of this library should get.
func Unexpected(events []history.Event) (texts []string) {
	how := map[int]string{}
	for _, e := range events {
		switch {
		case e.Kind == history.Asked:
			how[e.Attempt] = e.Text
		case e.Kind == history.Failed && !MayFail(how[e.Attempt], e.Error):
			texts = append(texts, fmt.Sprintf("%s: unexpected error: %v", how[e.Attempt], e))
		case e.Kind == history.Released && e.Error != "" && !MayFailRelease(e.Error):
			texts = append(texts, fmt.Sprintf("release: unexpected error: %v", e))
		}
	}
	return texts
}
