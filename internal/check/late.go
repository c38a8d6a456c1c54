// SPDX-License-Identifier: Apache-2.0

package check

import (
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// Why is how it came that a holder wrote late.
type Why string

const (
	// Paused: it was not scheduled when another was granted the path, and wrote when it was again.
	Paused Why = "paused"
	// Removed: its node was deleted by hand, or that of who followed it.
	Removed Why = "by-hand"
	// ToldAndWrote: it had been told in time, and had a write under way.
	ToldAndWrote Why = "told"
	// Unexcused: there is no reason.
	Unexcused Why = "unexcused"
)

// overtaken says whether a holder was told only when another had been granted the path, and why.
func (s *story) overtaken(h *hold) (why Why, is bool) {
	next, astray := s.following(h)
	switch {
	case next.Kind != "" && h.when() > next.At:
		if h.node != nil && h.node.deleted.Cause == history.ByHand {
			return Removed, true
		}
		if h.unscheduled(s, next.At) {
			return Paused, true
		}
		return Unexcused, true
	case astray.Kind != "" && h.when() > astray.At:
		return Removed, true
	}
	return "", false
}

// lateWriters are the attempts with a write that came after one with a greater token, by any register of the path.
func (s *story) lateWriters() map[int]bool {
	late := map[int]bool{}
	for _, writes := range s.writes {
		var newest history.ID
		for _, w := range writes {
			if w.wrote.Token < newest {
				late[w.wrote.Attempt] = true
			}
			newest = max(newest, w.wrote.Token)
		}
	}
	return late
}

// why says how it came that an attempt wrote late.
func (s *story) why(attempt int) Why {
	h := s.byTry[attempt]
	if h == nil { // it was never granted anything
		return Unexcused
	}
	if why, overtaken := s.overtaken(h); overtaken {
		return why
	}
	return ToldAndWrote
}
