// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

func TestFollowerIsAServingServerThatDoesNotLead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		servers[1].dead = true // it is still starting
		for range 4 {
			got, err := s.server(t.Context(), "follower")
			require.NoError(t, err)
			require.Same(t, servers[2], got)
		}
		servers[2].dead = true
		_, err := s.server(t.Context(), "follower")
		require.ErrorContains(t, err, "no follower")
	})
}

func TestServerThatEndsUnexpectedlyIsAProblem(t *testing.T) {
	s, servers := newTestRun()
	servers[1].fails = map[string]error{"run": errors.New("unknown")}
	s.fault(t.Context(), Fault{Kind: "kill-server", Args: []string{"2"}})
	require.Equal(t, []string{"run", "kill", "start"}, servers[1].done())
	require.Empty(t, s.result.Failures)

	servers[2].fails = map[string]error{"run": fmt.Errorf("exit code 1: %w", os.ErrProcessDone)}
	s.fault(t.Context(), Fault{Kind: "kill-server", Args: []string{"3"}})
	require.Equal(t, []string{"run", "start"}, servers[2].done())
	require.Equal(t, []string{"server 3 has ended unexpectedly: exit code 1: os: process already finished"}, s.result.Failures)
	require.Empty(t, s.reservations.states)
}

func TestServerThatStaysDeadIsAProblem(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		kill := Fault{Kind: "kill-server", Args: []string{"2"}}
		s.fault(t.Context(), kill)
		require.Empty(t, s.result.Failures)

		servers[1].dead = true
		s.fault(t.Context(), kill)
		require.Len(t, s.result.Failures, 1)
		require.Contains(t, s.result.Failures[0], "did not serve within 34s")
		require.Empty(t, s.reservations.states)
	})
}

func TestServerHasNoDeadlineWhileAnotherIsBroken(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		servers[1].dead = true // there is no quorum
		require.NoError(t, s.reservations.reserve("server 3"))
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.fault(t.Context(), Fault{Kind: "kill-server", Args: []string{"2"}})
		}()
		time.Sleep(10 * time.Minute)
		s.reservations.release("server 3")
		time.Sleep(10 * time.Second)
		servers[1].mu.Lock()
		servers[1].dead = false
		servers[1].mu.Unlock()
		<-over
		require.Empty(t, s.result.Failures)
		require.Equal(t, verdict.FaultCount{Injected: 1}, s.result.Faults["kill-server"])
	})
}

func TestRollingRestartIsInjectedOnlyIfAllServersRestarted(t *testing.T) {
	restart := Fault{Kind: "rolling-restart", For: time.Second}
	faketime.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		s.fault(t.Context(), restart)
		for _, one := range servers {
			require.Equal(t, []string{"run", "kill", "start"}, one.done())
		}
		require.Equal(t, verdict.FaultCount{Injected: 1}, s.result.Faults["rolling-restart"])
		require.Empty(t, s.result.Failures)
		require.Empty(t, s.reservations.states)
	})
	// The restart waits for a server that comes back later than planned, and restarts the others afterwards.
	faketime.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		servers[0].dead = true
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.fault(t.Context(), restart)
		}()
		time.Sleep(20 * time.Second)
		servers[0].mu.Lock()
		require.Equal(t, "start", servers[0].did[len(servers[0].did)-1])
		servers[0].mu.Unlock()
		require.Empty(t, servers[1].done())
		require.ErrorIs(t, s.reservations.reserve("server 3"), errBusy)
		<-over // the wait has ended, and the server is still dead
		require.Equal(t, verdict.FaultCount{Missed: 1}, s.result.Faults["rolling-restart"])
		require.Len(t, s.result.Failures, 1)
		require.Contains(t, s.result.Failures[0], "restart server 1: it has not come back")
		require.Empty(t, s.reservations.states)
	})
	// If the run ends meanwhile, the server that is down is started, and no other is stopped.
	faketime.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		servers[0].dead = true
		ctx, interrupt := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			s.fault(ctx, Fault{Kind: "rolling-restart", For: time.Hour})
		}()
		time.Sleep(time.Second)
		interrupt()
		time.Sleep(time.Second)
		servers[0].mu.Lock()
		servers[0].dead = false
		servers[0].mu.Unlock()
		<-over
		require.Empty(t, servers[1].done())
		require.Equal(t, verdict.FaultCount{Missed: 1}, s.result.Faults["rolling-restart"])
		require.Empty(t, s.result.Failures)
	})
}
