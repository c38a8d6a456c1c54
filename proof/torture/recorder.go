// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A recorder collects the events of a run, from all sources and in any order. It is safe for concurrent use.
type recorder struct {
	mu     sync.Mutex // guards what follows
	events []history.Event
	grants int
	texts  map[string]string // interned
}

func (r *recorder) add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.texts == nil {
		r.texts = map[string]string{}
	}
	// A long run has millions of events, and few different strings.
	for _, text := range []*string{&e.Contender, &e.Path, &e.Text, &e.Error} {
		if known, ok := r.texts[*text]; ok {
			*text = known
		} else if len(r.texts) < 1000 {
			r.texts[*text] = *text
		}
	}
	if e.Kind == history.Granted {
		r.grants++
	}
	r.events = append(r.events, e)
}

// granted returns the number of grants so far.
func (r *recorder) granted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants
}

// outstanding describes the operations of a contender that should have completed and have not.
func (r *recorder) outstanding(contender string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	open, why := map[int]history.Event{}, "none of its attempts has failed"
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
			outstanding = append(outstanding, fmt.Sprintf("it has not begun to release %s, granted at %v", e.Path, e.At))
		case history.Releasing:
			outstanding = append(outstanding, fmt.Sprintf("it has not finished the release of %s, begun at %v", e.Path, e.At))
		default:
			outstanding = append(outstanding, fmt.Sprintf("it was not granted %s after all faults were healed, requested at %v", e.Path, e.At))
		}
	}
	if len(outstanding) == 0 {
		return "one of its clients was not granted anything after all faults were healed, and has no attempt under way; " + why
	}
	return strings.Join(outstanding, "; ")
}

// history returns all events, ordered by their instants. No event may be added afterwards.
func (r *recorder) history() []history.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.InOrder(r.events)
}

// replaceTokens replaces the tokens of grants by the czxids of their nodes, by which the checker finds the nodes. The library
// has no tokens: those recorded so far are instants (Spec.Tokenless). Writes keep theirs, by which the registers decided.
func (r *recorder) replaceTokens() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	created := map[string]history.ID{}
	for _, e := range r.events {
		if e.Kind == history.Created {
			created[e.Node] = e.Zxid // names do not recur
		}
	}
	for i, e := range r.events {
		if e.Kind != history.Granted {
			continue
		}
		if r.events[i].Token = created[e.Node]; r.events[i].Token == 0 {
			return fmt.Errorf("transaction logs: no server has logged the creation of %s, the node of a grant", e.Node)
		}
	}
	return nil
}
