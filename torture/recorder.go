// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A recorder collects what everybody tells, in any order.
type recorder struct {
	mu     sync.Mutex // guards what follows
	events []history.Event
	grants int
	words  map[string]string
}

func (r *recorder) add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.words == nil {
		r.words = map[string]string{}
	}
	// One copy of what is said again and again: runs are long.
	for _, text := range []*string{&e.Contender, &e.Path, &e.Text, &e.Error} {
		if known, ok := r.words[*text]; ok {
			*text = known
		} else if len(r.words) < 1000 {
			r.words[*text] = *text
		}
	}
	if e.Kind == history.Granted {
		r.grants++
	}
	r.events = append(r.events, e)
}

func (r *recorder) granted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants
}

// outstanding says what a contender waits for that should end and does not.
func (r *recorder) outstanding(contender string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	open, why := map[int]history.Event{}, "nothing that it asked for has failed"
	for _, e := range r.events {
		if e.Contender != contender {
			continue
		}
		switch e.Kind {
		case history.Asked, history.Granted, history.Releasing:
			open[e.Attempt] = e
		case history.Failed:
			why = fmt.Sprintf("its last failure was %q at %v", e.Error, e.At)
			delete(open, e.Attempt)
		case history.Released:
			delete(open, e.Attempt)
		}
	}
	var outstanding []string
	for _, attempt := range slices.Sorted(maps.Keys(open)) {
		e := open[attempt]
		switch e.Kind {
		case history.Granted:
			outstanding = append(outstanding, fmt.Sprintf("it has not begun to give back %s, granted at %v", e.Path, e.At))
		case history.Releasing:
			outstanding = append(outstanding, fmt.Sprintf("it has not come to an end with giving back %s, begun at %v", e.Path, e.At))
		default:
			outstanding = append(outstanding, fmt.Sprintf("it was not granted %s after everything was healed, asked for at %v", e.Path, e.At))
		}
	}
	if len(outstanding) == 0 {
		return "a client of it was not granted anything after everything was healed, and now asks for nothing; " + why
	}
	return strings.Join(outstanding, "; ")
}

// history is all of it as a history, in the order of its instants. Nothing is added after that.
func (r *recorder) history() []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return inOrder(r.events)
}

// inOrder makes events a history.
func inOrder(events []history.Event) []history.Event {
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range events {
		events[i].Line = i + 1
	}
	return events
}

// replaceTokens puts the czxid of the node that a grant stands on, which the library has not told, in the place of what stood in
// for a token: the checker finds the node by it.
func (r *recorder) replaceTokens() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	created, tokens := map[string]history.ID{}, map[int]history.ID{}
	for _, e := range r.events {
		if e.Kind == history.Created {
			created[e.Node] = e.Zxid // names do not recur
		}
	}
	for _, e := range r.events {
		if e.Kind == history.Granted {
			if tokens[e.Attempt] = created[e.Node]; tokens[e.Attempt] == 0 {
				return fmt.Errorf("no server has logged that %s was made, on which a grant stands", e.Node)
			}
		}
	}
	for i, e := range r.events {
		if token := tokens[e.Attempt]; token != 0 && e.Token != 0 {
			r.events[i].Token = token
		}
	}
	return nil
}
