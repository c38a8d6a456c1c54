// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
)

// scheduled is an activation that a replica ran, and the session of that replica.
type scheduled struct {
	time    time.Time
	token   fencing.Token
	session int64
}

// Three replicas at three servers run an activation each second. The session of the leader ends with its second activation.
func TestScheduledActivationIsRunOnceAcrossAFailover(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	ctx, stop := context.WithCancel(s.Ctx)
	defer stop()
	ran, ended := make(chan scheduled, 1000), make(chan error, 3)
	for _, server := range s.ensemble.Addrs() {
		client := s.Connect(recipes.Options{}, server)
		replica, err := schedule.New(client, s.Path("schedule"), schedule.Every(time.Second), nil)
		require.NoError(t, err)
		go func() {
			ended <- replica.Run(ctx, func(_ context.Context, activation schedule.Activation) error {
				ran <- scheduled{activation.Time, activation.Token(), client.SessionID()}
				return nil
			})
		}()
	}
	var last scheduled
	for leaders, n := 0, 0; leaders < 2 || n < 5; n++ {
		var next scheduled
		select {
		case next = <-ran:
		case <-s.Ctx.Done():
			require.NoError(t, s.Ctx.Err(), "no activation was run")
		}
		require.True(t, next.time.After(last.time), "%v after %v", next.time, last.time)
		if next.token != last.token {
			require.Greater(t, next.token, last.token)
			leaders++
		}
		if last = next; n == 1 {
			require.NoError(t, s.ensemble.Expire(s.Ctx, next.session))
		}
	}
	stop()
	for range 3 {
		require.NoError(t, <-ended)
	}
}
