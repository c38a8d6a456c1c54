// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/docker/txnlog"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// ordered tells what the ensemble ordered, from the logs of its servers. It is read when the run is over.
func (s *stage) ordered(ctx context.Context) error {
	dir := s.opts.Logs
	if dir == "" {
		var err error
		if dir, err = os.MkdirTemp("", "torture-log-"); err != nil {
			return fmt.Errorf("transaction logs: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // what stays is in the folder for such things
	}
	var servers []txnlog.Server
	for _, server := range s.ensemble.Servers() {
		own := filepath.Join(dir, fmt.Sprint(server.ID))
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
	txns, dropped := txnlog.Agreed(servers)
	s.result.Transactions, s.result.Uncommitted = len(txns), dropped
	o := &ordering{stage: s, owner: map[string]int64{}}
	for i := range txns {
		o.tell(&txns[i])
	}
	return nil
}

// An ordering turns transactions into events.
type ordering struct {
	stage *stage
	owner map[string]int64 // session of each node, 0 if it has none
}

func (o *ordering) tell(t *txnlog.Txn) {
	// The clock of all leaders is this machine's.
	at := o.stage.wallclock(t.Time)
	cause := history.ByRequest
	if o.stage.operator.byHand(t.Session) {
		cause = history.ByHand
	}
	for _, part := range t.All() {
		e := history.Event{At: at, Zxid: history.ID(t.Zxid), Session: history.ID(t.Session)}
		switch part.Type {
		case txnlog.Create, txnlog.Create2, txnlog.CreateContainer, txnlog.CreateTTL:
			if !o.stage.isOurs(part.Paths[0]) {
				continue
			}
			e.Kind, e.Node = history.Created, part.Paths[0]
			if !part.Ephemeral {
				e.Session = 0
			}
			o.owner[e.Node] = int64(e.Session)
			o.stage.journal.add(e)
		case txnlog.Delete, txnlog.DeleteContainer:
			if !o.stage.isOurs(part.Paths[0]) {
				continue
			}
			e.Kind, e.Node, e.Cause = history.Deleted, part.Paths[0], cause
			if part.Type == txnlog.DeleteContainer {
				o.stage.result.Reaped++
			}
			o.stage.journal.add(e)
		case txnlog.CloseSession:
			// A client that closes its session numbers that request; who has it expire does not.
			if t.Request == 0 {
				cause = history.ByTimeout
				o.stage.result.Expired++
			}
			e.Cause = cause
			for _, node := range part.Paths {
				gone := e
				gone.Kind, gone.Node = history.Deleted, node
				if o.stage.isOurs(node) {
					o.stage.journal.add(gone)
				}
			}
			e.Kind = history.Ended
			o.stage.journal.add(e)
		}
	}
}

// isOurs says whether a node is below the paths of the run, or one of them.
func (s *stage) isOurs(node string) bool {
	return strings.HasPrefix(node, root+"/") && path.Clean(node) == node
}

// wallclock is the instant of a reading of the wall clock, by the readings of both clocks that were taken during the run:
// the machine's own may be slewed meanwhile.
func (s *stage) wallclock(at time.Time) history.Instant {
	s.clocks.mu.Lock()
	defer s.clocks.mu.Unlock()
	best := s.clocks.pairs[0]
	for _, p := range s.clocks.pairs {
		if p.wall.After(at) {
			break
		}
		best = p
	}
	return best.instant + history.Instant(at.Sub(best.wall))
}
