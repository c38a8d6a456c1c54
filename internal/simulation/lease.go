// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lease"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// replicas starts processes that are replicas of the lock service.
func (w *World) replicas(names ...string) map[string]*Process {
	processes := w.connect(names...)
	for _, p := range processes {
		if p.client == nil {
			continue
		}
		var err error
		p.replica, err = lease.New(p.client, &lease.Options{Logger: slog.New(slog.DiscardHandler)})
		w.must(err)
	}
	return processes
}

// get has the replica read the queue of lockPath, as the service does for GET: the replica observes the leases.
func (p *Process) get() (lease.Status, error) {
	return send(p, p.world.opts.Timeout, 0, func(ctx context.Context, r *lease.Replica, _ time.Time) (lease.Status, error) {
		return r.Status(ctx, lockPath)
	})
}

// force revokes the holder of lockPath, and reports whether the replica says that it is notified.
func (p *Process) force() (notified bool) {
	for range 5 {
		s, err := p.get()
		if err != nil {
			continue
		}
		forced, err := send(p, p.world.opts.Timeout, 0, func(ctx context.Context, r *lease.Replica, _ time.Time) (lease.Forced, error) {
			return r.ForceRelease(ctx, lease.Force{Path: lockPath, Token: s.Contenders[0].Token, By: "operator", Reason: "stuck"})
		})
		var front *lease.FrontError
		switch {
		case err == nil:
			return forced.Notified
		case errors.Is(err, errNoAnswer), errors.Is(err, lease.ErrUncertain), errors.As(err, &front):
		default:
			p.must(err)
		}
	}
	return false
}

// drain waits until no contender is left. Each process that has not crashed reads the queue meanwhile, because a lease that
// no client knows of does not end.
func (w *World) drain() {
	began := time.Now()
	for time.Since(began) < patience {
		names, err := w.ensemble.Children(lockPath)
		if err != nil || len(names) == 0 {
			return
		}
		for _, p := range w.alive() {
			if p.replica != nil {
				p.working.Go(func() { _, _ = p.get() })
			}
		}
		time.Sleep(w.opts.Timeout)
	}
	w.problemf("contenders are left %v after the last caller has stopped", patience)
}

// A contenderRecord is the part of a contender's record that the history needs.
type contenderRecord struct {
	Kind    string          `json:"kind"`
	TTL     int64           `json:"ttl"` // ms
	Revoked json.RawMessage `json:"revoked"`
}

// ttlOf returns the TTL of a lease with that data, 0 if it is none.
func ttlOf(data []byte) history.Instant {
	var r contenderRecord
	if json.Unmarshal(data, &r) != nil || r.Kind != "lease" {
		return 0
	}
	return history.Instant(time.Duration(r.TTL) * time.Millisecond)
}

// recordRevoked notes that a contender was revoked.
func (w *World) recordRevoked(c zktest.Commit) {
	var r contenderRecord
	if json.Unmarshal(c.Data, &r) == nil && len(r.Revoked) > 0 {
		w.mu.Lock()
		w.revoked[c.Path] = true
		w.mu.Unlock()
	}
}

func (w *World) wasRevoked(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.revoked[path]
}
