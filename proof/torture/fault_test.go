// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// addLinkedContender adds a contender without a process to a run, whose links lead to a server that answers each frame with
// its xid. It returns a connection through the link to the second server.
func (r *run) addLinkedContender(t *testing.T) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for {
					length := make([]byte, 4)
					if _, err := io.ReadFull(conn, length); err != nil {
						return
					}
					frame := make([]byte, binary.BigEndian.Uint32(length))
					if _, err := io.ReadFull(conn, frame); err != nil {
						return
					}
					_, _ = conn.Write(append([]byte{0, 0, 0, 4}, frame[:4]...))
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	c := &contender{run: r, number: 1}
	for range r.servers.All() {
		p, err := docker.NewProxy(l.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { _ = p.Close() })
		c.proxies = append(c.proxies, p)
	}
	r.contenders = []*contender{c}
	return r.dial(t)
}

// dial connects through the first contender's link to the second server.
func (r *run) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.contenders[0].proxies[1].Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// roundTrip sends a frame and waits for the answer.
func roundTrip(conn net.Conn, frame []byte) error {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 8))
	return err
}

func TestLostReplyIsInjectedOnlyIfAReplyWasDropped(t *testing.T) {
	s, _ := newTestRun()
	s.ensemble = &docker.Ensemble{}
	conn := s.addLinkedContender(t)
	hello := make([]byte, 44)
	require.NoError(t, roundTrip(conn, hello))

	lose := Fault{For: 50 * time.Millisecond, Kind: "lose-reply", Args: []string{"1", "release"}}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.fault(t.Context(), lose)
	}()
	<-over
	require.Equal(t, verdict.FaultCount{Missed: 1}, s.result.Faults["lose-reply"], "no client has sent a release")
	require.NoError(t, roundTrip(conn, release), "the fault was healed")

	undo, err := s.inject(t.Context(), lose)
	require.NoError(t, err)
	require.NoError(t, roundTrip(conn, heartbeat), "a request of another kind is answered")
	require.Error(t, roundTrip(conn, release))
	require.NoError(t, s.healFault(t.Context(), lose, undo))
	require.NoError(t, roundTrip(s.dial(t), hello))
	require.Empty(t, s.result.Problems)
}

func TestHalfDoneFaultIsHealed(t *testing.T) {
	s, servers := newTestRun()
	conn := s.addLinkedContender(t)
	require.NoError(t, roundTrip(conn, make([]byte, 44)))
	servers[0].fails = map[string]error{"isolate": errors.New("no")}
	servers[1].fails = map[string]error{"kill": context.DeadlineExceeded, "partition": docker.ErrUnsupported, "heal": docker.ErrUnsupported}

	// The links are refused before the leader is isolated.
	s.fault(t.Context(), Fault{Kind: "isolate-leader", Args: []string{"1"}})
	require.Contains(t, servers[0].done(), "heal")
	require.NoError(t, roundTrip(s.dial(t), make([]byte, 44)))
	// A server that was not killed in time may nevertheless be dead.
	s.fault(t.Context(), Fault{Kind: "kill-server", Args: []string{"2"}})
	require.Contains(t, servers[1].done(), "start")
	// An unsupported fault is not retried. A failure to heal it is no problem.
	before := len(servers[1].done())
	s.fault(t.Context(), Fault{For: 500 * time.Millisecond, Kind: "partition-server", Args: []string{"2"}})
	require.Equal(t, []string{"run", "partition", "heal"}, servers[1].done()[before:])
	require.Equal(t, map[string]verdict.FaultCount{"isolate-leader": {Missed: 1}, "kill-server": {Missed: 1}, "partition-server": {Missed: 1}},
		s.result.Faults)
	require.Empty(t, s.result.Problems)
	require.Empty(t, s.reservations.states)
}

func TestUnusedParentCountsAsReapedOnlyIfItDisappeared(t *testing.T) {
	for _, one := range []struct {
		exists []bool // the answers; the last one repeats
		reaped bool
	}{
		{[]bool{true, true, false}, true}, {[]bool{false, true, true, false}, true}, {[]bool{true}, false}, {[]bool{false}, false},
	} {
		faketime.Test(t, func(t *testing.T) {
			s, _ := newTestRun()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			n := 0
			err := s.leaveUnused(ctx, containers[0], func(context.Context, string) (bool, error) {
				n++
				if n == 2 { // a failed read proves nothing
					return false, errors.New("not answered")
				}
				return one.exists[min(n, len(one.exists))-1], nil
			})
			if one.reaped {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errMissed)
		})
	}
}

func TestNodeFaultsAreMissedWithoutNodes(t *testing.T) {
	s, _ := newTestRun()
	s.opts.Faults = Kinds()
	s.opts.Plan = []Fault{
		{Kind: "delete-node", Args: []string{containers[0], "0"}},
		{Kind: "delete-parent", Args: []string{containers[0]}},
		{Kind: "reap", Args: []string{containers[0]}},
	}
	s.runNemesis(t.Context())
	require.Equal(t, map[string]verdict.FaultCount{
		"delete-node": {Missed: 1}, "delete-parent": {Missed: 1}, "reap": {Missed: 1}, "counter": {Missed: 1},
	}, s.result.Faults)
}

func TestFaultsBeginAtTheirTimesInAnyPlanOrder(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		s, _ := newTestRun()
		s.opts.Plan = []Fault{
			{At: time.Hour, Kind: "pause-server", Args: []string{"1"}}, {At: 0, Kind: "kill-server", Args: []string{"2"}},
		}
		s.runNemesis(t.Context())
		var begun []string
		for _, e := range s.recorder.history() {
			require.Equal(t, history.Fault, e.Kind)
			begun = append(begun, e.Text)
		}
		require.Equal(t, []string{
			"at 0s for 0s kill-server 2", "over: at 0s for 0s kill-server 2", "at 1h0m0s for 0s pause-server 1", "over: at 1h0m0s for 0s pause-server 1",
		}, begun)
	})
}
