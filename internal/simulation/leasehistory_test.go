// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A leaseHistory is what the ensemble committed about contenders, in its order, and what their
// holders believed. Its checks share no code with package lease.
type leaseHistory struct {
	mu      sync.Mutex // guards what follows, and the uses
	commits int
	nodes   map[string]*leaseNode // by name
	uses    []*leaseUse
	wrong   []string
}

// A leaseNode is one contender's node.
type leaseNode struct {
	name      string
	writes    []leaseWrite
	deleted   int // index of the commit, 0 while it exists
	deletedAt time.Time
}

// A leaseWrite is one committed version of a record.
type leaseWrite struct {
	index int
	at    time.Time
	leaseRecord
}

// A leaseRecord is what the checks read of a record.
type leaseRecord struct {
	Kind    string          `json:"kind"`
	Held    bool            `json:"held"`
	TTL     int64           `json:"ttl"`
	Revoked json.RawMessage `json:"revoked"`

	Requests []string `json:"requests"`
}

// A leaseUse is the time in which a holder that keeps the rule uses the resource.
type leaseUse struct {
	who, node string
	token     int64
	answered  int // number of commits at the answer
	from      time.Time
	until     time.Time // by its lease, on a clock that is slower by 1/64
	stopped   time.Time // zero while it uses the resource
}

// end returns when the holder stopped.
func (u *leaseUse) end() time.Time {
	if !u.stopped.IsZero() && u.stopped.Before(u.until) {
		return u.stopped
	}
	return u.until
}

func (h *leaseHistory) problemf(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// commit records what the ensemble committed. It is called for one transaction after the other.
func (h *leaseHistory) commit(c zktest.Commit) {
	if c.Err != nil {
		return
	}
	for _, op := range c.Ops {
		h.commit(op)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	name := path.Base(c.Path)
	switch {
	case c.Op == "closeSession":
		for _, p := range c.Removed {
			h.delete(path.Base(p), c.Time)
		}
	case !strings.Contains(name, "lock-"):
	case c.Op == "create":
		h.nodes[name] = &leaseNode{name: name}
		h.write(name, c)
	case c.Op == "setData":
		h.write(name, c)
	case c.Op == "delete":
		h.delete(name, c.Time)
	}
}

func (h *leaseHistory) delete(name string, at time.Time) {
	h.commits++
	if n := h.nodes[name]; n != nil {
		n.deleted, n.deletedAt = h.commits, at
	}
}

// write records a version, and checks the rules for it.
func (h *leaseHistory) write(name string, c zktest.Commit) {
	h.commits++
	w := leaseWrite{index: h.commits, at: c.Time}
	if err := json.Unmarshal(c.Data, &w.leaseRecord); err != nil {
		h.wrong = append(h.wrong, fmt.Sprintf("%s: record %q: %v", name, c.Data, err))
	}
	n := h.nodes[name]
	if len(n.writes) > 0 && w.Kind == "lease" {
		last := n.writes[len(n.writes)-1]
		if last.Revoked != nil {
			h.wrong = append(h.wrong, name+": a revoked record was written again")
		}
		if last.Held && w.Held && w.TTL < last.TTL {
			h.wrong = append(h.wrong, fmt.Sprintf("%s: the TTL of a held record was lowered from %d to %d", name, last.TTL, w.TTL))
		}
	}
	n.writes = append(n.writes, w)
}

// begin records that a holder begins to use the resource.
func (h *leaseHistory) begin(who, node string, token int64, until time.Time) *leaseUse {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := &leaseUse{who: who, node: path.Base(node), token: token, answered: h.commits, from: time.Now(), until: until}
	h.uses = append(h.uses, u)
	return u
}

// extend records that a renewal was answered.
func (h *leaseHistory) extend(u *leaseUse, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.After(u.until) {
		u.until = until
	}
}

// stop records that the holder has stopped.
func (h *leaseHistory) stop(u *leaseUse) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u.stopped = time.Now()
}

// requests returns the requests that share a lease, none if its node does not exist any more.
func (h *leaseHistory) requests(node string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.nodes[path.Base(node)]
	if n.deleted > 0 {
		return nil
	}
	return n.writes[len(n.writes)-1].Requests
}

// check returns what is wrong with the whole run, after a quiet period.
func (h *leaseHistory) check() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.nodes {
		if n.deleted == 0 {
			h.wrong = append(h.wrong, n.name+": the node still exists after the quiet period")
		}
	}
	for _, u := range h.uses {
		h.checkUse(u)
		for _, later := range h.uses {
			if later.token > u.token && h.nodes[u.node].deleted > h.granted(later) {
				h.wrong = append(h.wrong, fmt.Sprintf("%s was granted %s before %s of %s was deleted", later.who, later.node, u.node, u.who))
			}
		}
	}
	return h.wrong
}

// checkUse checks that the node existed while its holder used the resource.
func (h *leaseHistory) checkUse(u *leaseUse) {
	n := h.nodes[u.node]
	if n.deleted > 0 && n.deletedAt.Before(u.end()) && u.from.Before(u.end()) {
		h.wrong = append(h.wrong, fmt.Sprintf("%s was deleted %v before %s stopped", u.node, u.end().Sub(n.deletedAt), u.who))
	}
	granted := h.granted(u)
	for _, w := range n.writes {
		if w.Kind == "lease" && w.index > granted && !w.Held {
			h.wrong = append(h.wrong, fmt.Sprintf("%s was written as waiting after it was granted to %s", u.node, u.who))
		}
	}
}

// granted returns the index of the write that granted the claim or the lease, or a later one that
// granted it again: the last held one before the answer. That of a session's claim is the answer.
func (h *leaseHistory) granted(u *leaseUse) (index int) {
	index = u.answered
	for _, w := range h.nodes[u.node].writes {
		if w.Kind == "lease" && w.Held && w.index <= u.answered {
			index = w.index
		}
	}
	return index
}
