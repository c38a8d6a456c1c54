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

// A journal collects what everybody tells, in any order.
type journal struct {
	mu     sync.Mutex // guards what follows
	events []history.Event
	grants int
	words  map[string]string
}

func (j *journal) add(e history.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.words == nil {
		j.words = map[string]string{}
	}
	// One copy of what is said again and again: runs are long.
	for _, text := range []*string{&e.Contender, &e.Path, &e.Text, &e.Error} {
		if known, ok := j.words[*text]; ok {
			*text = known
		} else if len(j.words) < 1000 {
			j.words[*text] = *text
		}
	}
	if e.Kind == history.Granted {
		j.grants++
	}
	j.events = append(j.events, e)
}

func (j *journal) granted() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.grants
}

// owed says what a contender waits for that should end and does not.
func (j *journal) owed(contender string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	open, why := map[int]history.Event{}, "nothing that it asked for has failed"
	for _, e := range j.events {
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
	var owed []string
	for _, attempt := range slices.Sorted(maps.Keys(open)) {
		e := open[attempt]
		switch e.Kind {
		case history.Granted:
			owed = append(owed, fmt.Sprintf("it has not begun to give back %s, granted at %v", e.Path, e.At))
		case history.Releasing:
			owed = append(owed, fmt.Sprintf("it has not come to an end with giving back %s, begun at %v", e.Path, e.At))
		default:
			owed = append(owed, fmt.Sprintf("it was not granted %s after everything was healed, asked for at %v", e.Path, e.At))
		}
	}
	if len(owed) == 0 {
		return "a client of it was not granted anything after everything was healed, and now asks for nothing; " + why
	}
	return strings.Join(owed, "; ")
}

// told is all of it as a history, in the order of its instants. Nothing is added after that.
func (j *journal) told() []history.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	return inOrder(j.events)
}

// inOrder makes events a history.
func inOrder(events []history.Event) []history.Event {
	slices.SortStableFunc(events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range events {
		events[i].Line = i + 1
	}
	return events
}

// retoken puts the czxid of the node that a grant stands on, which the library has not told, in the place of what stood in
// for a token: the checker finds the node by it.
func (j *journal) retoken() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	created, tokens := map[string]history.ID{}, map[int]history.ID{}
	for _, e := range j.events {
		if e.Kind == history.Created {
			created[e.Node] = e.Zxid // names do not recur
		}
	}
	for _, e := range j.events {
		if e.Kind == history.Granted {
			if tokens[e.Attempt] = created[e.Node]; tokens[e.Attempt] == 0 {
				return fmt.Errorf("no server has logged that %s was made, on which a grant stands", e.Node)
			}
		}
	}
	for i, e := range j.events {
		if token := tokens[e.Attempt]; token != 0 && e.Token != 0 {
			j.events[i].Token = token
		}
	}
	return nil
}
