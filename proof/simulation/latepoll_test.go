// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A replica that remembers a waiter must not write it as waiting if another replica has granted it the lease since.
func TestLatePollDoesNotOverwriteGrantOfAnotherReplica(t *testing.T) {
	s := Scenario{"a request arrives late", deliverLatePoll}
	runs.instants.Add(1)
	runAndCheck(t, "a late poll", "-run "+t.Name(), func() ([]history.Event, error) {
		events, _, err := s.Run(Variants[0], Cut{})
		return events, err
	})
}

// deliverLatePoll has y wait at replica a for one poll, and at b until it is granted the lease. Then a receives a late
// duplicate of its request.
func deliverLatePoll(w *World) {
	w.startReplicas("a", "b")
	x := w.caller("x").acquire(Call{Replicas: all("a"), TTL: 2 * time.Minute})
	w.calling.Go(func() {
		time.Sleep(25 * time.Second) // the first poll lasts 20 s
		x.giveUp(true, 0)
	})
	call := Call{Replicas: all("a", "b"), TTL: 2 * time.Minute, Wait: time.Minute}
	y := w.caller("y").acquire(call)
	_, _ = send(w, delivery{replica: "a", patience: w.opts.Timeout}, func(ctx context.Context, r *lease.Replica, received time.Time) (lease.Grant, error) {
		return r.Acquire(ctx, received, lease.Request{Path: lockPath, Owner: y.call.owner, RequestID: y.id, TTL: call.TTL, Wait: call.Wait})
	})
	y.giveUp(true, 0)
	w.calling.Wait()
	w.drain()
}
