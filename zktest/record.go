// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// record queues a transaction for OnCommit, and wakes those that wait for one. The caller holds the ensemble's mu.
func (e *Ensemble) record(session int64, req any, en entry, expired bool) {
	if e.committed != nil {
		e.toWake = append(e.toWake, e.committed)
		e.committed = nil
	}
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
