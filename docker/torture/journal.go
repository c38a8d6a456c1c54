// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
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

// told is all of it as a history, in the order of its instants. Nothing is added after that.
func (j *journal) told() []history.Event {
	j.mu.Lock()
	defer j.mu.Unlock()
	slices.SortStableFunc(j.events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
	for i := range j.events {
		j.events[i].Line = i + 1
	}
	return j.events
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
