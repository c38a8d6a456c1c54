// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// recordWritten records the data of a node that was created or written. e has what is known of the write.
func (w *World) recordWritten(c zktest.Commit, e history.Event) {
	w.recordClaimed(c)
	w.recordWrote(c)
	e, ok, err := history.Written(e, c.Data)
	w.must(err)
	if !ok {
		return
	}
	w.recorder.AddAt(c.Time, e)
	if e.Kind == history.HandedOver {
		w.mu.Lock()
		w.handedOver = e
		w.mu.Unlock()
	}
}

// recordCommit records what the ensemble committed. It is called for one transaction after the other.
func (w *World) recordCommit(c zktest.Commit) {
	if c.Err != nil {
		return
	}
	e := history.Event{Zxid: history.ID(c.Zxid), Session: history.ID(c.Session), Node: c.Path}
	switch c.Op {
	case "multi":
		for _, op := range c.Ops {
			w.recordCommit(op)
		}
	case "create", "create2", "createContainer":
		w.recordWritten(c, e)
		r, _ := history.RecordOf(c.Data)
		e.Kind, e.Lease, e.Held = history.Created, r.Lease, r.Held
		w.sessions.nodeCreated(c.Session, c.Path)
		w.recorder.AddAt(c.Time, e)
	case "delete", "deleteContainer":
		e.Kind, e.Cause = history.Deleted, history.ByRequest
		switch {
		case c.Session == 0 && c.Op == "delete":
			e.Cause = history.ByOperator
		case w.wasRevoked(c.Path):
			e.Cause = history.ByRevocation
		}
		w.recorder.AddAt(c.Time, e)
	case "setData":
		w.recordWritten(c, e)
		w.recordRenewed(c, e)
	case "closeSession":
		w.recordEnded(c, e)
	}
}

// recordEnded records the end of a session, and the nodes that it deleted.
func (w *World) recordEnded(c zktest.Commit, e history.Event) {
	e.Cause = history.ByRequest
	if c.Expired {
		e.Cause = history.ByTimeout
		w.mu.Lock()
		if w.byOperator[c.Session] {
			e.Cause = history.ByOperator
		}
		w.mu.Unlock()
	}
	e.Kind, e.Node = history.Ended, ""
	w.recorder.AddAt(c.Time, e)
	for _, path := range c.Removed {
		e.Kind, e.Node = history.Deleted, path
		w.recorder.AddAt(c.Time, e)
	}
}
