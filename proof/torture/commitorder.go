// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// readCommitOrder adds ZooKeeper's commit order to the history, from the transaction logs of the servers. It runs when the run
// is over.
func (r *run) readCommitOrder(ctx context.Context) error {
	dir := r.opts.Logs
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "torture-log-"); err != nil {
			return fmt.Errorf("transaction logs: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // leftovers stay in the temporary folder
	}
	var servers []txnlog.Server
	for _, server := range r.ensemble.Servers() {
		own := filepath.Join(dir, fmt.Sprint(server.ID()))
		if err := os.MkdirAll(own, 0o755); err != nil {
			return fmt.Errorf("transaction logs: %w", err)
		}
		if err := server.SaveLogs(ctx, own); err != nil {
			return err
		}
		read, err := txnlog.ReadServer(own)
		if err != nil {
			return err
		}
		servers = append(servers, read)
	}
	r.result.OperatorSessions, r.result.EndedSessions = r.operator.ownSessions(), slices.Sorted(slices.Values(r.operator.expiredSessions()))
	for _, e := range order(r.result, servers, func([]txnlog.Txn) *clocks { return &r.clocks }) {
		r.recorder.add(e)
	}
	return nil
}

// Reorder reads the servers' logs of a finished run again, one folder for each server, and replaces the commit order in the
// history by theirs. Use it when the log reader has changed since the run was checked.
func Reorder(r *verdict.Result, dir string) error {
	var servers []txnlog.Server
	for i := range r.Servers {
		s, err := txnlog.ReadServer(filepath.Join(dir, fmt.Sprint(i+1)))
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	if r.OperatorSessions == nil {
		return fmt.Errorf("reorder %s: the run does not record which sessions were the operator's", dir)
	}
	instants := map[history.ID]history.Instant{}
	for _, e := range r.History {
		if isOrder(e) {
			instants[e.Zxid] = e.At
		}
	}
	events := order(r, servers, func(txns []txnlog.Txn) *clocks { return datedBy(txns, instants) })
	seen := slices.DeleteFunc(r.History, isOrder)
	r.History = history.InOrder(append(seen, events...))
	return nil
}

// isOrder reports whether an event comes from the servers' logs.
func isOrder(e history.Event) bool { return e.Zxid != 0 && e.Contender == "" }

// datedBy returns readings of both clocks, from transactions whose instants are known.
func datedBy(txns []txnlog.Txn, instants map[history.ID]history.Instant) *clocks {
	c := &clocks{}
	for _, t := range txns {
		if at, known := instants[history.ID(t.Zxid)]; known {
			c.pairs = append(c.pairs, bothClocks{t.Time, at})
		}
	}
	slices.SortStableFunc(c.pairs, func(a, b bothClocks) int { return a.wall.Compare(b.wall) })
	return c
}

// order returns the transactions that the ensemble committed, according to its servers' logs, as events.
func order(r *verdict.Result, servers []txnlog.Server, clocksOf func([]txnlog.Txn) *clocks) []history.Event {
	txns, dropped := txnlog.Agreed(servers)
	r.Transactions, r.Uncommitted, r.Expired, r.Reaped = len(txns), dropped, 0, 0
	o := &ordering{result: r, clocks: clocksOf(txns), leases: map[string]history.Event{}, revoked: map[string]bool{}}
	for i := range txns {
		o.add(&txns[i])
	}
	// Each operation of the operator has its own session. Sessions that changed nothing need not be recorded.
	acted := map[history.ID]bool{}
	for _, e := range o.events {
		acted[e.Session] = acted[e.Session] || e.Kind == history.Deleted && e.Cause == history.ByOperator
	}
	r.OperatorSessions = slices.DeleteFunc(r.OperatorSessions, func(session history.ID) bool { return !acted[session] })
	return o.events
}

// An ordering converts transactions to events.
type ordering struct {
	result  *verdict.Result
	clocks  *clocks
	events  []history.Event
	leases  map[string]history.Event // last writes of leases, by node
	revoked map[string]bool          // nodes of revoked contenders
}

// add appends the events of a transaction.
func (o *ordering) add(t *txnlog.Txn) {
	// All leaders use this machine's clock.
	at := o.clocks.at(t.Time)
	cause := history.ByRequest
	if slices.Contains(o.result.OperatorSessions, history.ID(t.Session)) {
		cause = history.ByOperator
	}
	for _, op := range t.All() {
		e := history.Event{At: at, Zxid: history.ID(t.Zxid), Session: history.ID(t.Session)}
		switch op.Type {
		case txnlog.Create, txnlog.Create2, txnlog.CreateContainer, txnlog.CreateTTL:
			if !isOurs(op.Paths[0]) {
				continue
			}
			e.Kind, e.Node = history.Created, op.Paths[0]
			if !op.Ephemeral {
				o.leaseCreated(&e, op.Data)
			}
			o.events = append(o.events, e)
			o.recipeWritten(e, op.Data)
		case txnlog.SetData:
			if isOurs(op.Paths[0]) {
				e.Node = op.Paths[0]
				o.recordWritten(e, op.Data)
				o.recipeWritten(e, op.Data)
			}
		case txnlog.Delete, txnlog.DeleteContainer:
			if !isOurs(op.Paths[0]) {
				continue
			}
			e.Kind, e.Node, e.Cause = history.Deleted, op.Paths[0], cause
			if cause == history.ByRequest {
				e.Cause = o.whyDeleted(e)
			}
			if op.Type == txnlog.DeleteContainer {
				o.result.Reaped++
			}
			o.events = append(o.events, e)
		case txnlog.CloseSession:
			// A client that closes its session numbers that request; a leader that expires a session does not. The operator
			// closes its own sessions, and those that a fault names; if that failed, the session may have timed out later.
			cause = history.ByRequest
			switch {
			case t.Request == 0:
				cause = history.ByTimeout
				o.result.Expired++
			case slices.Contains(o.result.EndedSessions, history.ID(t.Session)):
				cause = history.ByOperator
			}
			e.Cause = cause
			for _, node := range op.Paths {
				gone := e
				gone.Kind, gone.Node = history.Deleted, node
				if isOurs(node) {
					o.events = append(o.events, gone)
				}
			}
			e.Kind = history.Ended
			o.events = append(o.events, e)
		}
	}
}

// recipeWritten appends the write of a node beside a path, unless another program wrote it.
func (o *ordering) recipeWritten(e history.Event, data []byte) {
	if e, ok, err := history.Written(e, data); ok && err == nil {
		o.events = append(o.events, e)
	}
}

// isOurs reports whether a node is one of the run's paths or below one.
func isOurs(node string) bool {
	return strings.HasPrefix(node, root+"/") && path.Clean(node) == node
}
