// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// busy returns a history of one lock that three contenders hold by turns, each of them asking again as soon as it has released: one of
// seven grants is a reader's, beside which the next reader is granted.
func busy(grants int) []history.Event {
	events := []history.Event{{Kind: history.Run, Timeout: history.Instant(4e9)}}
	add := func(kind history.Kind, attempt int, token history.ID, shared bool) {
		e := history.Event{
			Kind: kind, Contender: string(rune('a' + attempt%3)), Attempt: attempt, Path: "/l",
			At: history.Instant(len(events)) * 1e6, Line: len(events) + 1,
		}
		switch kind {
		case history.Asked:
			e.Text = "lock"
		case history.Granted:
			e.Token, e.Shared, e.Session, e.Node = token, shared, 1+history.ID(attempt%3), "/l/n"
		case history.Notified:
			e.Cause = history.GivenUp
		}
		events = append(events, e)
	}
	shared := func(attempt int) bool { return attempt%7 < 2 }
	for attempt := 1; attempt <= 3; attempt++ {
		add(history.Asked, attempt, 0, false)
	}
	for attempt := 1; attempt <= grants; attempt++ {
		add(history.Granted, attempt, history.ID(attempt), shared(attempt))
		if shared(attempt) && shared(attempt+1) {
			continue // both readers hold at the same time
		}
		for ended := attempt - 1; ended <= attempt; ended++ {
			if ended == attempt || ended > 0 && shared(ended) && shared(attempt) {
				add(history.Releasing, ended, 0, false)
				add(history.Notified, ended, 0, false)
				add(history.Released, ended, 0, false)
				add(history.Asked, ended+3, 0, false)
			}
		}
	}
	return events
}

// linearizable returns the findings of porcupine.
func linearizable(events []history.Event) (texts []string) {
	for _, f := range check.History(events) {
		if f.Rule == check.Linearizable {
			texts = append(texts, f.Text)
		}
	}
	return texts
}

func TestLongHistoryIsSearchedInWindows(t *testing.T) {
	events := busy(5000)
	require.Empty(t, linearizable(events))
	var view bytes.Buffer
	require.NoError(t, check.Visualize(events, &view))
	require.Less(t, view.Len(), 1<<20, "one window is shown")
	require.Contains(t, view.String(), "acquire")
}

func TestViolationsFarBackInALongHistoryAreFound(t *testing.T) {
	const grants, at = 5000, 4000
	for name, spoil := range map[string]func(e *history.Event){
		"granted during another hold": func(e *history.Event) {
			if e.Attempt == at && (e.Kind == history.Releasing || e.Kind == history.Notified || e.Kind == history.Released) {
				*e = history.Event{Kind: history.Note, At: e.At, Line: e.Line, Text: "it never ended"}
			}
		},
		"a falling token": func(e *history.Event) {
			if e.Kind == history.Granted && e.Attempt == at {
				e.Token = at - 10
			}
		},
		"an exclusive grant beside readers": func(e *history.Event) {
			if e.Kind == history.Granted && e.Attempt == at-at%7+1 {
				e.Shared = false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			events := busy(grants)
			for i := range events {
				spoil(&events[i])
			}
			require.NotEmpty(t, linearizable(events))
		})
	}
}

// A member of an assignment is paused before it records that it owns a partition. Another one owns it in the meantime.
func TestOwnerThatRecordsItsGrantAfterAPauseHasAskedBeforeIt(t *testing.T) {
	own := history.Event{Contender: "a", Attempt: 1, Path: "/p", Text: "own"}
	next := history.Event{Contender: "b", Attempt: 2, Path: "/p", Text: "own"}
	at := func(second int, kind history.Kind, e history.Event) history.Event {
		e.Kind, e.At = kind, history.Instant(second)*1e9
		switch kind {
		case history.Granted:
			e.Node, e.Session, e.Token = "/p/q-lock-0000000000", 1, 1
			if e.Contender == "b" {
				e.Node, e.Session, e.Token = "/p/q-lock-0000000001", 2, 2
			}
		case history.Notified:
			e.Cause = "deadline"
		}
		return e
	}
	events := []history.Event{
		{Kind: history.Run, Timeout: 4e9},
		{Kind: history.Created, At: 1e9, Node: "/p/q-lock-0000000000", Session: 1, Zxid: 1},
		{Kind: history.Paused, At: 1e9, Contender: "a"},
		{Kind: history.Deleted, At: 8e9, Node: "/p/q-lock-0000000000", Session: 1, Zxid: 2, Cause: history.ByTimeout},
		{Kind: history.Created, At: 9e9, Node: "/p/q-lock-0000000001", Session: 2, Zxid: 2},
		at(9, history.Asked, next), at(9, history.Granted, next),
		{Kind: history.Woke, At: 20e9, Contender: "a"},
		at(20, history.Asked, own), at(20, history.Granted, own), at(20, history.Notified, own), at(20, history.Releasing, own), at(20, history.Released, own),
		at(30, history.Releasing, next), at(30, history.Notified, next),
	}
	for i := range events {
		events[i].Line = i + 1
	}
	require.Empty(t, linearizable(events))
}
