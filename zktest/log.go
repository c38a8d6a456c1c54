// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A log is what the leader has committed and some server has not applied yet. It is
// guarded by the ensemble's mu, as all of this file is.
type log struct {
	first   int64 // the index of entries[0]
	entries []entry
}

// An entry is one transaction.
type entry struct {
	txn     tree.Txn
	outcome tree.Outcome
	closes  int64 // the session that it ends, 0 if none
	plant   plant // a counter that is set with it, and then it is no transaction
	at      time.Time
}

// A plant is a counter of sequential names that is set from outside.
type plant struct {
	path string
	next int32
}

func (l *log) end() int64 { return l.first + int64(len(l.entries)) }

// has says whether the entries from next on are there.
func (l *log) has(next int64) bool { return next >= l.first && next <= l.end() }

// commit adds what the leader has decided, and its tree carried out.
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

// trim forgets the entries that every server has: those that are stopped, or were cut
// off for too long, take the leader's tree over.
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

// replicate applies what the server may know of by now.
func (s *Server) replicate() {
	if s.cut {
		return
	}
	for s.next < s.ensemble.log.end() {
		if s.next < s.ensemble.log.first {
			return // it is about to take over the leader's tree
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

// catchUp applies everything.
func (s *Server) catchUp() {
	for s.next < s.ensemble.log.end() && s.next >= s.ensemble.log.first {
		s.apply(&s.ensemble.log.entries[s.next-s.ensemble.log.first])
	}
}

// apply carries out the next transaction: watchers are told first, and then those
// who wait for it are answered.
func (s *Server) apply(en *entry) {
	s.next++
	if en.plant.path != "" {
		// The leader has the node, and all the others by now.
		_ = s.tree.PlantCounter(en.plant.path, en.plant.next)
		return
	}
	outcome := en.outcome
	if s.tree.Zxid() < en.txn.Zxid { // else it is the leader's, which has decided it
		outcome = s.tree.Apply(en.txn)
	}
	s.zxid = en.txn.Zxid
	for _, change := range outcome.Changes {
		s.tell(change)
	}
	if en.closes != 0 {
		s.closeSession(en.closes)
	}
	for _, c := range inOrder(s.waiting) {
		c.pump()
	}
}

// Commit is a transaction, as the ensemble has carried it out: a request of a client,
// or the end of a session.
type Commit struct {
	Zxid    int64
	Time    time.Time
	Session int64  // whose request it was, or which has ended; 0 for the servers' own doing
	Op      string // "create", "setData", "multi", "createSession", "closeSession", …
	Path    string // of the node, as it was named in the end
	Data    []byte // of a create or setData. It must not be changed
	Err     error  // a refusal, which changes nothing and has a zxid all the same
	Ops     []Commit
	Removed []string // of closeSession: the session's ephemeral nodes
	Expired bool     // of closeSession: nobody has asked for it
}

// record has OnCommit told of a transaction.
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
	e.told.put(c, 0, 0)
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

// tellCommits tells OnCommit, until the end.
func (e *Ensemble) tellCommits() {
	for {
		c, ok := e.told.take()
		if !ok || c.Zxid == 0 {
			return
		}
		e.opts.OnCommit(c)
	}
}
