// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/lockkeeper/lockkeeper/internal/view"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Assignment is what the records of the members state at one moment.
type Assignment struct {
	Members map[string]string // ID of the member that each partition is assigned to
}

// Observe follows the assignment: it yields the current one, and then each change. It is not a proof of ownership: a member that
// a partition was assigned to may wait for the former owner, or may have crashed. A slow reader skips to the newest assignment, and a burst of changes
// is read at most once in T/48, where T is the session timeout.
//
// It shows the records as seen by the server that the client is connected to. It continues across disconnections and sessions. It
// ends when the reader stops, or with an error as its last element that states the reason: ctx's, recipes.ErrClosed, or that with
// which a server refused.
func (a *Assign) Observe(ctx context.Context) iter.Seq2[Assignment, error] {
	return func(yield func(Assignment, error) bool) {
		var last map[string]string
		for {
			v, err := view.New(ctx, a.shares)
			if err == nil {
				var more bool
				more, err = follow(ctx, v, &last, yield)
				v.Close()
				switch {
				case !more:
					return
				case v.Ended() != nil && ctx.Err() == nil:
					continue
				}
			}
			yield(Assignment{}, fmt.Errorf("observe: %w", err))
			return
		}
	}
}

// follow yields the assignments after last in one session. It returns why it ended; more is false if the reader has stopped.
func follow(ctx context.Context, v *view.View, last *map[string]string, yield func(Assignment, error) bool) (more bool, err error) {
	for {
		stored, err := readShares(ctx, v)
		if err != nil {
			return true, err
		}
		if members := stored.assigned(); *last == nil || !maps.Equal(members, *last) {
			*last = maps.Clone(members) // the reader may change what it gets
			if !yield(Assignment{members}, nil) {
				return false, nil
			}
		}
		if err := v.Wait(ctx); err != nil {
			return true, err
		}
	}
}

// stored are the records of all members, by ID.
type stored map[string]storedShare

// A storedShare is the record of a member as it was read. A node with other data has no partitions.
type storedShare struct {
	share
	content recipes.Content
}

// readShares returns the records as they were at one moment. It reads those that have changed since they were read.
//
// A server sends the events of a transaction before any later reply, but the first one is enough to begin to read. Records that have changed by the time
// of the last reply are therefore read again: else a partition that moved could be in neither of two records, or in both.
func readShares(ctx context.Context, v *view.View) (stored, error) {
	for {
		children, err := v.Children(ctx)
		if err != nil {
			return nil, err
		}
		contents, err := v.Read(ctx, children.Names)
		if err != nil {
			return nil, err
		}
		changed := isClosed(children.Changed)
		for _, c := range contents {
			changed = changed || isClosed(c.Changed)
		}
		if changed {
			continue
		}
		all := make(stored, len(contents))
		for id, c := range contents {
			s, _ := shares.Decode(c.Data) // a leader replaces other data
			all[id] = storedShare{share: s, content: c}
		}
		return all, nil
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// assigned returns the ID of the member that each partition is assigned to. If an operator has written records, two can name a partition: the one that was
// written last counts.
func (s stored) assigned() map[string]string {
	members := make(map[string]string)
	for id, r := range s {
		for _, p := range r.Partitions {
			if other, twice := members[p]; !twice || s[other].content.Stat.Mzxid < r.content.Stat.Mzxid ||
				s[other].content.Stat.Mzxid == r.content.Stat.Mzxid && other < id {
				members[p] = id
			}
		}
	}
	return members
}
