// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	gopath "path"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// requireGrace requires that the claim has ended because it was revoked, and that its work had
// time to stop before its node was deleted.
func (w world) requireGrace(queue *queue.Queue, claim *recipes.Claim) {
	w.Helper()
	<-claim.Done()
	require.ErrorIs(w, claim.Err(), recipes.ErrRevoked)
	time.Sleep(timeout/4 - timeout/100)
	require.Contains(w, w.nodes(), gopath.Base(claim.Path()))
	time.Sleep(timeout / 50)
	require.NotContains(w, w.nodes(), gopath.Base(claim.Path()))
	require.ErrorIs(w, queue.Release(w.Context(), claim), recipes.ErrRevoked)
}

// The join checks the claim's node as a witness, and is the first to find it written.
func TestJoinOfSameClientLeavesRevokedClaimTimeToStop(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		queue, claim := w.claimed(recipes.Options{})
		w.revoked(r, claim.Token())
		ctx, cancel := context.WithCancel(w.Context())
		joined := make(chan error, 1)
		go func() {
			_, err := queue.Claim(ctx)
			joined <- err
		}()
		synctest.Wait()
		w.requireGrace(queue, claim)
		cancel()
		if err := <-joined; err != nil { // else the claim was granted before
			require.ErrorIs(w, err, context.Canceled)
		}
	})
}

// The holder's work needs time to stop even if the reason was not read.
func TestClaimWhoseRecordCannotBeReadHasTimeToStop(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		_, claim := w.claimed(recipes.Options{})
		w.revoked(r, claim.Token())
		lost := w.Intercept(zktest.Rule{Op: "getData", Below: path, Lose: zktest.ToServer})
		defer lost.Remove()
		<-claim.Done()
		require.ErrorIs(w, claim.Err(), recipes.ErrLost)
		lost.Remove()
		time.Sleep(timeout / 5)
		require.Contains(w, w.nodes(), gopath.Base(claim.Path()))
		time.Sleep(timeout)
		require.Empty(w, w.nodes())
	})
}

func TestHolderWhoseRecordMayNotBeWrittenCannotBeNotified(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		_, claim := w.claimed(recipes.Options{})
		defer w.Intercept(zktest.Rule{Op: "setData", Fail: zktest.ErrNoAuth}).Remove()
		_, err := r.ForceRelease(w.Context(), force(claim.Token()))
		require.ErrorIs(w, err, lease.ErrCannotNotify)
		require.NoError(w, claim.Check(w.Context()))
	})
}

// A TTL is rounded down to what a record holds before it is compared.
func TestRenewalAcceptsTheLongestTTL(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		_, err := r.Renew(w.Context(), time.Now(), g.Ticket, lease.DefaultMaxTTL+time.Microsecond)
		require.NoError(w, err)
		_, err = r.Renew(w.Context(), time.Now(), g.Ticket, lease.DefaultMaxTTL+time.Millisecond)
		require.ErrorContains(w, err, "TTL")
	})
}
