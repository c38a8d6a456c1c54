// SPDX-License-Identifier: Apache-2.0

package metricstest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// handOver has the client wait for a lock of the other one, and hold it.
func (w *world) handOver() {
	w.Helper()
	release := w.hold(w.other, "/a")
	queue := w.queue(w.client, "/a")
	granted := make(chan *recipes.Claim, 1)
	go func() { // ends with the grant
		claim, _ := queue.Claim(w.Context())
		granted <- claim
	}()
	time.Sleep(time.Minute)
	w.requires(Values{
		onA(`lockkeeper_waiters`): 1, onA(`lockkeeper_holds`): 0,
		onA(`lockkeeper_queue_length_count`): 1, onA(`lockkeeper_queue_length_sum`): 2,
		`lockkeeper_nodes{state="waiting"}`: 1,
	})
	release()
	claim := <-granted
	require.NotNil(w, claim)
	w.requires(Values{
		onA(`lockkeeper_wait_seconds_count`): 1, onA(`lockkeeper_wait_seconds_sum`): 60,
		onA(`lockkeeper_handoffs_total`): 1, onA(`lockkeeper_waiters`): 0, onA(`lockkeeper_holds`): 1,
	})
	time.Sleep(2 * time.Minute)
	now := w.requires(Values{onA(`lockkeeper_oldest_hold_seconds`): 120, `lockkeeper_nodes{state="held"}`: 1})
	proofs := now[`lockkeeper_deadline_left_ratio_count`]
	require.Greater(w, proofs, 100.0, "a proof every T/6")
	require.Greater(w, now[`lockkeeper_deadline_left_ratio_sum`]/proofs, 1.0/3)
	require.Greater(w, now[`lockkeeper_heartbeat_seconds_count`], 100.0)
	require.NoError(w, queue.Release(w.Context(), claim))
	w.requires(Values{
		onA(`lockkeeper_hold_seconds_count`): 1, onA(`lockkeeper_hold_seconds_sum`): 120,
		`lockkeeper_nodes{state="held"}`: 0,
	})
}

// failToWait has calls of the client return errors.
func (w *world) failToWait() {
	w.Helper()
	release := w.hold(w.other, "/a")
	defer release()
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	_, err := w.queue(w.client, "/a").Claim(ctx)
	require.ErrorIs(w, err, context.DeadlineExceeded)
	_, err = w.queue(w.client, "/a").Try(w.Context())
	require.Error(w, err)
	w.requires(Values{
		`lockkeeper_wait_failures_total{cause="timeout",path="/a"}`: 1, `lockkeeper_wait_failures_total{cause="busy",path="/a"}`: 1,
	})
}

// join has the answer of a join delayed.
func (w *world) join() {
	w.Helper()
	joins := w.link.Intercept(zktest.Rule{Op: "create", Below: "/a", Hold: zktest.ToClient})
	release := w.wait()
	w.requires(Values{`lockkeeper_nodes{state="joining"}`: 1})
	joins.Release()
	joins.Remove()
	release()
}

// failToDelete has the servers refuse a deletion.
func (w *world) failToDelete() {
	w.Helper()
	queue := w.queue(w.client, "/a")
	claim, err := queue.Claim(w.Context())
	require.NoError(w, err)
	refused := w.link.Intercept(zktest.Rule{Op: "delete", Below: "/a", Fail: zktest.ErrNoAuth})
	require.Error(w, queue.Release(w.Context(), claim))
	now := w.requires(Values{`lockkeeper_nodes{state="deleting"}`: 1})
	require.Positive(w, now[`lockkeeper_deletion_failures_total`])
	refused.Remove()
	time.Sleep(time.Minute)
	w.requires(Values{`lockkeeper_nodes{state="deleting"}`: 0})
}

// drop blocks the client's trace until it drops events.
func (w *world) drop() {
	w.Helper()
	defer w.hold(w.client, "/b")()
	<-w.blockable
	for range 600 {
		w.hold(w.client, "/a")()
	}
	w.blockable <- struct{}{}
	now := w.requires(nil)
	require.Positive(w, now[`lockkeeper_dropped_events_total`])
}

// reconnect breaks the client's connection once.
func (w *world) reconnect() {
	w.Helper()
	defer w.hold(w.client, "/b")()
	w.link.Reset()
	time.Sleep(timeout)
	w.requires(Values{`lockkeeper_reconnects_total`: 1, `lockkeeper_ready`: 1, `lockkeeper_outages_total`: 0})
}

// expire ends the client's session while it holds and waits.
func (w *world) expire() {
	w.Helper()
	w.hold(w.client, "/b")
	release := w.hold(w.other, "/a")
	released := w.wait()
	require.NoError(w, w.server.Expire(context.Background(), w.client.SessionID()))
	time.Sleep(timeout)
	w.requires(Values{
		`lockkeeper_losses_total{cause="expired",path="/b"}`: 1, `lockkeeper_rejoins_total{cause="expired",path="/a"}`: 1,
		`lockkeeper_sessions_ended_total{cause="expired"}`: 1,
	})
	release()
	released()
}

// outage separates the client from the servers for as long as its session lives, and longer.
func (w *world) outage() {
	w.Helper()
	w.hold(w.client, "/b")
	time.Sleep(timeout)
	w.link.Hold(zktest.Both)
	time.Sleep(2 * timeout)
	now := w.requires(Values{
		`lockkeeper_ready`: 0, `lockkeeper_outages_total`: 1, `lockkeeper_losses_total{cause="deadline",path="/b"}`: 1,
	})
	require.Positive(w, now[`lockkeeper_heartbeat_failures_total`])
	w.link.Release()
	time.Sleep(2 * timeout)
	w.requires(Values{`lockkeeper_ready`: 1, `lockkeeper_sessions_ended_total{cause="expired"}`: 2})
}

// takeOver has the client find that the other one, whose session ended, did not release.
func (w *world) takeOver() {
	w.Helper()
	opts := &queue.Options{LockDelay: time.Second}
	former, err := queue.New(w.other, "/b", opts)
	require.NoError(w, err)
	_, err = former.Claim(w.Context())
	require.NoError(w, err)
	require.NoError(w, w.server.Expire(context.Background(), w.other.SessionID()))
	queue, err := queue.New(w.client, "/b", opts)
	require.NoError(w, err)
	claim, err := queue.Claim(w.Context())
	require.NoError(w, err)
	w.requires(Values{`lockkeeper_unreleased_total{path="/b"}`: 1})
	require.NoError(w, queue.Release(w.Context(), claim))
}
