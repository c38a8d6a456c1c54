// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// No write is answered: the first attempt ends, and so would each of the others, after the session timeout.
func TestDeadlineOfACallBoundsAllItsAttempts(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		held := w.acquired(r, ask("a"))
		w.Intercept(zktest.Rule{Hold: zktest.ToServer, When: func(r zktest.Request) bool { return r.Op != "ping" && r.Op != "connect" }})
		for name, call := range map[string]func(ctx context.Context) error{
			"acquire": func(ctx context.Context) error {
				_, err := r.Acquire(ctx, time.Now(), ask("b"))
				return err
			},
			"renew": func(ctx context.Context) error {
				_, err := r.Renew(ctx, time.Now(), held.Ticket, ttl)
				return err
			},
			"release": func(ctx context.Context) error { return r.Release(ctx, held.Ticket) },
		} {
			for _, limit := range []time.Duration{2 * time.Second, time.Hour} {
				ctx, cancel := context.WithTimeout(w.Context(), limit)
				began := time.Now()
				require.ErrorIs(w, call(ctx), lease.ErrUncertain, name)
				require.LessOrEqual(w, time.Since(began), min(limit, timeout)+time.Second, name)
				cancel()
			}
		}
	})
}
