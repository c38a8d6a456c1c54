// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A log holds the entries that the leader has committed and some server has not applied
// yet. It is guarded by the ensemble's mu. The callers of all functions in this file,
// except reportCommits, hold mu.
type log struct {
	first   int64 // the index of entries[0]
	entries []entry
}

// An entry is one transaction, or one counter that the test has set.
type entry struct {
	txn     tree.Txn
	outcome tree.Outcome
	closes  int64   // the session that it ends, 0 if none
	counter counter // if its path is set, the entry is no transaction
	at      time.Time
}

// A counter sets the counter of sequential names of the node at path: see
// Ensemble.SetCounter.
type counter struct {
	path string
	next int32
}

func (l *log) end() int64 { return l.first + int64(len(l.entries)) }

// has reports whether the log contains all entries from index next on.
func (l *log) has(next int64) bool { return next >= l.first && next <= l.end() }

// commit appends an entry that the leader has decided and applied to its tree, and
// replicates it.
func (e *Ensemble) commit(en entry) {
	en.at = time.Now()
	e.log.entries = append(e.log.entries, en)
	for _, s := range e.servers {
		if s.running {
			s.replicate()
		}
	}
	e.trim()
}

// trim drops the entries that every server has applied. It does not wait for servers that
// are stopped, or were isolated for too long: these copy the leader's tree later.
func (e *Ensemble) trim() {
	least := e.log.end()
	for _, s := range e.servers {
		if s.connected() || s.serving {
			least = min(least, s.next)
		}
	}
	const batch = 256
	if n := least - e.log.first; n >= batch || least == e.log.end() {
		clear(e.log.entries[:n])
		e.log.entries = e.log.entries[n:]
		e.log.first = least
		if len(e.log.entries) == 0 {
			e.log.entries = nil
		}
	}
}

// replicate applies the entries that have reached the server by now.
func (s *Server) replicate() {
	if s.isolated {
		return
	}
	for s.next < s.ensemble.log.end() {
		if s.next < s.ensemble.log.first {
			return // it is about to copy the leader's tree
		}
		en := &s.ensemble.log.entries[s.next-s.ensemble.log.first]
		if s != s.ensemble.leader && s.lag > 0 {
			if wait := time.Until(en.at.Add(s.lag)); wait > 0 {
				s.replicateIn(wait)
				return
			}
		}
		s.apply(en)
	}
}

func (s *Server) replicateIn(wait time.Duration) {
	if s.lagTimer != nil {
		s.lagTimer.Stop()
	}
	s.lagTimer = s.ensemble.after(wait, func() {
		if s.running {
			s.replicate()
		}
	})
}

// catchUp applies all entries, regardless of lag and isolation.
func (s *Server) catchUp() {
	for s.next < s.ensemble.log.end() && s.next >= s.ensemble.log.first {
		s.apply(&s.ensemble.log.entries[s.next-s.ensemble.log.first])
	}
}

// apply carries out the next entry: it sends the events to watchers first, and then
// answers the requests that wait for the transaction.
func (s *Server) apply(en *entry) {
	s.next++
	if en.counter.path != "" {
		// The node exists: on the leader, and by now on all other servers.
		_ = s.tree.SetCounter(en.counter.path, en.counter.next)
		return
	}
	outcome := en.outcome
	if s.tree.Zxid() < en.txn.Zxid { // otherwise this is the leader, which has applied it already
		outcome = s.tree.Apply(en.txn)
	}
	s.zxid = en.txn.Zxid
	for _, change := range outcome.Changes {
		s.notify(change)
	}
	if en.closes != 0 {
		s.closeSession(en.closes)
	}
	for _, c := range inOrder(s.waiting) {
		c.answerReady()
	}
}

// A Commit is a transaction that the ensemble has carried out: a request of a client, a
// deletion by the servers or the test, or the end of a session.
type Commit struct {
	Zxid    int64
	Time    time.Time
	Session int64  // that sent the request, or that ended; 0 for a request without a session
	Op      string // "create", "setData", "multi", "createSession", "closeSession", …
	Path    string // of the node, with the number of a sequential one
	Data    []byte // of a create or setData; it must not be changed
	Err     error  // a refusal: it changes nothing, but has a zxid
	Ops     []Commit
	Removed []string // of closeSession: the session's ephemeral nodes
	Expired bool     // of closeSession: the session expired, its client did not close it
}

// record queues a transaction for OnCommit.
func (e *Ensemble) record(session int64, req any, en entry, expired bool) {
	if e.opts.OnCommit == nil {
		return
	}
	c := commitOf(req, en.outcome)
	c.Zxid, c.Time, c.Session = en.txn.Zxid, time.Now(), session
	c.Removed, c.Expired = en.outcome.Removed, expired
	for i := range c.Ops {
		c.Ops[i].Zxid, c.Ops[i].Time, c.Ops[i].Session = c.Zxid, c.Time, session
	}
	e.commits.put(c, 0, 0)
}

func commitOf(req any, outcome tree.Outcome) Commit {
	c := Commit{Path: outcome.Path}
	if code := outcome.Err(); code != wire.OK {
		c.Err = asError(code)
	}
	asked := func(op wire.Op, path string, data []byte) {
		c.Op, c.Data = op.String(), data
		if c.Path == "" {
			c.Path = path
		}
	}
	switch req := req.(type) {
	case wire.Create:
		asked(req.Op, req.Path, req.Data)
	case wire.Delete:
		asked(wire.OpDelete, req.Path, nil)
	case wire.SetData:
		asked(wire.OpSetData, req.Path, req.Data)
	case wire.SetACL:
		asked(wire.OpSetACL, req.Path, nil)
	case wire.Check:
		asked(wire.OpCheck, req.Path, nil)
	case wire.Reconfig:
		asked(wire.OpReconfig, "", nil)
	case wire.CloseSession:
		asked(wire.OpCloseSession, "", nil)
	case tree.Refused:
		asked(req.Op, "", nil)
	case tree.DeleteContainer:
		asked(wire.OpDeleteContainer, req.Path, nil)
	case createSession:
		asked(wire.OpCreateSession, "", nil)
	case wire.Multi:
		asked(wire.OpMulti, "", nil)
		for i, op := range req.Ops {
			if i < len(outcome.Results) {
				c.Ops = append(c.Ops, commitOf(op, outcome.Results[i]))
			}
		}
	}
	return c
}

// reportCommits calls OnCommit for each recorded transaction, until Close.
func (e *Ensemble) reportCommits() {
	for {
		c, ok := e.commits.take()
		if !ok || c.Zxid == 0 {
			return
		}
		e.opts.OnCommit(c)
	}
}
