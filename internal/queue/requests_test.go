// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// waitingLease is a lease that waits.
var waitingLease = lease.Lease{TTL: time.Minute, Principal: "p", Owner: "o", Requests: []string{"r"}}

// requests returns the requests of a client about the queue /l.
func (s servers) requests(client *recipes.Client) *lease.Requests {
	s.Helper()
	requests, err := lease.NewRequests(s.Context(), s.queue(client, "/l"))
	require.NoError(s, err)
	return requests
}

func TestRefusedTransactionOfWritesIsSentAgainOneByOne(t *testing.T) {
	crowded(t, zktest.Options{}, func(s servers) {
		requests := s.requests(s.loaded(recipes.Options{}))
		var writes []*lease.Write
		for range 70 {
			c, _, err := requests.Create(s.Context(), "hint", waitingLease, nil)
			require.NoError(s, err)
			writes = append(writes, &lease.Write{Requests: requests, Contender: c, Lease: *c.Lease})
		}
		transactions := s.Intercept(zktest.Rule{Op: "multi"})
		lease.WriteAll(s.Context(), writes)
		require.Equal(s, 2, transactions.Fired(), "at most 64 in one")
		require.NoError(s, s.Delete("/l/"+writes[5].Contender.Name))
		lease.WriteAll(s.Context(), writes)
		for i, w := range writes {
			if i == 5 {
				require.ErrorIs(s, w.Err, zk.ErrNoNode)
				continue
			}
			require.NoError(s, w.Err)
			require.Equal(s, int32(2), w.Contender.Version)
		}
	})
}

func TestCreateOfLeaseThatIsNotAnsweredIsRecovered(t *testing.T) {
	for _, lost := range []zktest.Direction{zktest.ToServer, zktest.ToClient} {
		crowded(t, zktest.Options{}, func(s servers) {
			client := s.loaded(recipes.Options{})
			requests := s.requests(client)
			s.Intercept(zktest.Rule{Op: "create", Below: "/l", Times: 1, Lose: lost})
			c, alone, err := requests.Create(s.Context(), "hint", waitingLease, nil)
			require.NoError(s, err)
			require.Equal(s, lost == zktest.ToServer, alone, "only an answer shows that no contender is ahead")
			names, err := s.Children("/l")
			require.NoError(s, err)
			require.Equal(s, []string{c.Name}, names)
			read, err := requests.Read(s.Context(), c.Name)
			require.NoError(s, err)
			require.Equal(s, read.Token, c.Token)
			require.Zero(s, client.OutstandingNodes(), "no session is responsible for a lease")
		})
	}
}

// Another call for the same request may have found the node, and answered for it.
func TestLeaseOfCallerThatHasGoneStaysIfItWasWritten(t *testing.T) {
	for _, written := range []bool{false, true} {
		crowded(t, zktest.Options{}, func(s servers) {
			client := s.loaded(recipes.Options{})
			requests := s.requests(client)
			answers := s.Intercept(zktest.Rule{Op: "create", Below: "/l", Hold: zktest.ToClient})
			ctx, cancel := context.WithCancel(s.Context())
			done := make(chan error, 1)
			go func() {
				_, _, err := requests.Create(ctx, "hint", waitingLease, nil)
				done <- err
			}()
			synctest.Wait()
			cancel()
			names, err := s.Children("/l")
			require.NoError(s, err)
			require.Len(s, names, 1)
			if written {
				require.NoError(s, s.Set("/l/"+names[0], []byte("{}")))
			}
			answers.Remove()
			require.ErrorIs(s, <-done, context.Canceled)
			time.Sleep(loadTimeout)
			names, err = s.Children("/l")
			require.NoError(s, err)
			require.Equal(s, written, len(names) == 1)
			require.Zero(s, client.OutstandingNodes())
		})
	}
}
