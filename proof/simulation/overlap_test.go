// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// runScript runs a script whose requests overlap in a chosen order, which no cut produces.
func runScript(t *testing.T, name string, script func(*World)) {
	t.Helper()
	s := Scenario{name, script}
	runs.instants.Add(1)
	runAndCheck(t, name, "-run "+t.Name(), func() ([]history.Event, error) {
		events, _, err := s.Run(Variants[0], Cut{})
		return events, err
	})
}

// A downgrade writes over the version that it has read. An administrator revokes the holder between the read and the write.
func TestDowngradeDoesNotOverwriteRevocation(t *testing.T) {
	runScript(t, "a holder is revoked while it downgrades", func(w *World) {
		p, c := w.startReplicas("a"), w.connect("c", "d")
		arrived := make(chan struct{}, 1)
		write := c["c"].link.Intercept(zktest.Rule{Op: "setData", Below: lockPath, Times: 1, Hold: zktest.ToServer, When: func(r zktest.Request) bool {
			alone := len(r.Ops) == 0 // a join is a transaction
			if alone {
				select {
				case arrived <- struct{}{}:
				default:
				}
			}
			return alone
		}})
		w.inOrder(
			func() { w.must(downgradeRevoked(c["c"])) },
			func() { c["d"].must(c["d"].rw("write", w.fraction(8))) },
			func() {
				<-arrived
				if !p["a"].force(lockPath) {
					w.problemf("the holder of %s was not notified", lockPath)
				}
				write.Remove()
				w.mustEndWithin(w.fraction(1) / 2)
			},
		)
		w.drain()
	})
}

// downgradeRevoked returns nil if the downgrade of a writer's hold returns that the hold was revoked.
func downgradeRevoked(p *Process) error {
	m, err := p.rwMutex(lockPath)
	if err != nil {
		return err
	}
	by, _ := p.recordAsked(Operation{Kind: "downgrade", Path: lockPath})
	hold, err := m.Lock(p.ctx)
	if err != nil {
		return err
	}
	notified, _ := p.recordGranted(by, hold.Claim)
	p.record(by, history.Downgrading)
	if err := hold.Downgrade(p.ctx); !errors.Is(err, recipes.ErrRevoked) {
		return fmt.Errorf("downgrade of a hold that was revoked meanwhile: %w", err)
	}
	p.record(by, history.Releasing)
	err = hold.Unlock(p.ctx)
	p.recordReleased(by, err)
	<-notified
	if !errors.Is(err, recipes.ErrRevoked) {
		return fmt.Errorf("unlock of a hold that was revoked: %w", err)
	}
	return nil
}

// Both replicas have listed the queue before one of them creates the node of the request.
func TestRequestAtTwoReplicasLeavesOneNode(t *testing.T) {
	runScript(t, "two replicas create a node for one request", func(w *World) {
		p := w.startReplicas("a", "b")
		x := w.caller("x").acquire(Call{Replicas: all("a"), TTL: time.Minute})
		var creates []*zktest.Interceptor
		for _, replica := range p {
			creates = append(creates, replica.link.Intercept(zktest.Rule{Op: "create", Below: lockPath, Times: 1, Hold: zktest.ToServer}))
		}
		w.calling.Go(func() {
			w.hold("y", Call{Replicas: all("a", "b"), TTL: time.Minute, Wait: 5 * w.fraction(1), Duplicate: 1}, w.fraction(4))
		})
		time.Sleep(w.fraction(8))
		for _, create := range creates {
			create.Remove()
		}
		time.Sleep(w.fraction(8))
		if names, err := w.ensemble.Children(lockPath); err != nil || len(names) != 2 {
			w.problemf("nodes of x and y: %q, %v: want one of each", names, err)
		}
		x.giveUp(true, 0)
		w.calling.Wait()
		w.drain()
	})
}

// The request that created the lease was released, and another one of its owner shares the lease.
func TestLateDuplicateOfCreatingRequestDoesNotEnterAgain(t *testing.T) {
	runScript(t, "the creating request of a shared lease arrives again", func(w *World) {
		w.startReplicas("a", "b")
		call := Call{Replicas: all("a", "b"), Reentrant: true, TTL: time.Minute}
		h := w.caller("x").acquire(call)
		creating := h.tickets[0]
		h.enter()
		h.tickets = h.tickets[1:]
		w.must(h.sendRelease(creating, 0))
		for _, replica := range call.Replicas {
			_, err := send(w, delivery{replica: replica, patience: w.opts.Timeout}, func(ctx context.Context, r *lease.Replica, received time.Time) (lease.Grant, error) {
				return r.Acquire(ctx, received, lease.Request{Path: lockPath, Owner: h.call.owner, RequestID: h.id, TTL: call.TTL, Reentrant: true})
			})
			if !errors.Is(err, lease.ErrReleased) {
				w.problemf("replica %s: a request that was released: %v: want %v", replica, err, lease.ErrReleased)
			}
		}
		h.giveUp(true, 0)
		w.drain()
	})
}
