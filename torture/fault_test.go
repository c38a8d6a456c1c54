// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/clock"
)

// A fakeServer is a server on which no operation has an effect; it records the operations.
type fakeServer struct {
	mu    sync.Mutex // guards what follows
	did   []string
	fails map[string]error // by what is done
	dead  bool             // it never serves
}

func (d *fakeServer) do(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.did = append(d.did, what)
	return d.fails[what]
}

func (d *fakeServer) done() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.did)
}

func (*fakeServer) Addr() string                      { return "" }
func (d *fakeServer) Kill(context.Context) error      { return d.do("kill") }
func (d *fakeServer) Start(context.Context) error     { return d.do("start") }
func (d *fakeServer) Pause(context.Context) error     { return d.do("pause") }
func (d *fakeServer) Unpause(context.Context) error   { return d.do("unpause") }
func (d *fakeServer) Partition(context.Context) error { return d.do("partition") }
func (d *fakeServer) Isolate(context.Context) error   { return d.do("isolate") }
func (d *fakeServer) Running(context.Context) error   { return d.do("run") }
func (d *fakeServer) Heal(context.Context) error      { return d.do("heal") }
func (*fakeServer) Log(context.Context) string        { return "" }

func (d *fakeServer) WaitServing(ctx context.Context) error {
	for {
		d.mu.Lock()
		dead := d.dead
		d.mu.Unlock()
		if !dead {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// fakeServers are servers of which the first leads.
type fakeServers []*fakeServer

func (fakeServers) About() string { return "fake servers" }
func (d fakeServers) All() (all []Server) {
	for _, one := range d {
		all = append(all, one)
	}
	return all
}
func (d fakeServers) Leader(context.Context) (Server, error) { return d[0], nil }
func (fakeServers) WaitServing(context.Context) error        { return nil }
func (fakeServers) Close() error                             { return nil }

// newTestRun returns a run with three fake servers and without contenders.
func newTestRun() (*run, fakeServers) {
	servers := fakeServers{{}, {}, {}}
	return &run{
		opts: &Options{Timeout: 2 * time.Second, Servers: len(servers), Duration: time.Minute, Log: func(string, ...any) {}},
		time: clock.Start(), result: &Result{Faults: map[string]FaultCount{}}, servers: servers,
	}, servers
}

// links gives a run a contender that has only a link to a server that answers each frame with its xid.
func (r *run) linksTarget(t *testing.T) net.Conn {
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

// dial connects through the link to the second server.
func (r *run) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", r.contenders[0].proxies[1].Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// asks sends a frame and waits for the answer.
func asks(conn net.Conn, frame []byte) error {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 8))
	return err
}

// Frames as the ZooKeeper client makes them.
func frameOf(op uint32, rest ...byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0, 0, 0, 7}, op), rest...)
}

func bytesOf(p string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(p))), p...)
}

func multiOf(first byte, rest ...byte) []byte {
	return frameOf(opMulti, append([]byte{0, 0, 0, first, 0, 0xff, 0xff, 0xff, 0xff}, rest...)...)
}

var (
	create     = frameOf(opCreate, append(bytesOf("/torture/a/x-lock-"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3)...)
	makeParent = frameOf(opCreate, append(bytesOf("/torture/a"), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)...)
	join       = multiOf(opCreate, bytesOf("/torture/a/x-lock-")...)
	release    = frameOf(opDelete, append(bytesOf("/torture/a/x-lock-0000000001"), 0xff, 0xff, 0xff, 0xff)...)
	flush      = frameOf(opDelete, append(bytesOf("/torture/a/x-lock-flush"), 0xff, 0xff, 0xff, 0xff)...)
	checked    = append(bytesOf("/torture/a/x-lock-0000000001"), 0, 0, 0, 0)
	header     = []byte{0, 0, 0, opCheck, 0, 0xff, 0xff, 0xff, 0xff}
	done       = []byte{0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff}
	heartbeat  = multiOf(opCheck, slices.Concat(checked, header, checked, done)...)
	witnessed  = multiOf(opCheck, slices.Concat(checked, []byte{0, 0, 0, opCreate, 0, 0xff, 0xff, 0xff, 0xff}, bytesOf("/torture/a/x-lock-"))...)
	read       = frameOf(4, append(bytesOf("/torture/a"), 0)...)
)

func TestRequestKindsAreRecognisedByTheirFrames(t *testing.T) {
	for _, one := range []struct {
		name  string
		frame []byte
		is    string
	}{
		{"create", create, "join"},
		{"join", join, "join"},
		{"release", release, "release"},
		{"heartbeat", heartbeat, "heartbeat"},
		{"join behind a check of a node of the session", witnessed, "join"},
		{"transaction that is cut short", heartbeat[:len(heartbeat)-12], ""},
		{"transaction whose path is longer than the frame", multiOf(opCheck, 0x7f, 0xff, 0xff, 0xff, 1, 1, 1, 1, 1), ""},
		{"parent", makeParent, ""},
		{"flush", flush, ""},
		{"read", read, ""},
		{"ping", frameOf(11), ""},
		{"short", []byte{1}, ""},
	} {
		for request, is := range requestsOf {
			require.Equal(t, one.is == request, is(one.frame), "%s as a %s", one.name, request)
		}
	}
	// The first frame of a connection has half a zxid, the epoch, where others have their operation.
	for _, epoch := range []uint64{opCreate, opDelete, opMulti} {
		for _, counter := range []uint64{1, 13, 28} {
			hello := binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, epoch<<32|counter)
			hello = binary.BigEndian.AppendUint32(hello, 4000)
			hello = binary.BigEndian.AppendUint64(hello, 0x1000123456789abc)
			hello = append(append(hello, 0, 0, 0, 16), make([]byte, 16)...)
			for request, is := range requestsOf {
				require.False(t, is(hello), "beginning in epoch %d as a %s", epoch, request)
			}
		}
	}
}

func TestLostReplyIsInjectedOnlyIfAReplyWasDropped(t *testing.T) {
	s, _ := newTestRun()
	s.ensemble = &docker.Ensemble{}
	conn := s.linksTarget(t)
	hello := make([]byte, 44)
	require.NoError(t, asks(conn, hello))

	lose := Fault{For: 50 * time.Millisecond, Kind: "lose-reply", Args: []string{"1", "release"}}
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.fault(t.Context(), lose)
	}()
	<-over
	require.Equal(t, FaultCount{Missed: 1}, s.result.Faults["lose-reply"], "no client has released anything")
	require.NoError(t, asks(conn, release), "it was taken back")

	back, err := s.inject(t.Context(), lose)
	require.NoError(t, err)
	require.NoError(t, asks(conn, heartbeat), "another request is answered")
	require.Error(t, asks(conn, release))
	require.NoError(t, s.healFault(t.Context(), lose, back))
	require.NoError(t, asks(s.dial(t), hello))
	require.Empty(t, s.result.Problems)
}

func TestHalfDoneFaultIsHealed(t *testing.T) {
	s, servers := newTestRun()
	conn := s.linksTarget(t)
	require.NoError(t, asks(conn, make([]byte, 44)))
	servers[0].fails = map[string]error{"isolate": errors.New("no")}
	servers[1].fails = map[string]error{"kill": context.DeadlineExceeded, "partition": docker.ErrUnsupported, "heal": docker.ErrUnsupported}

	// The links are refused before the leader is isolated.
	s.fault(t.Context(), Fault{Kind: "isolate-leader", Args: []string{"1"}})
	require.Contains(t, servers[0].done(), "heal")
	require.NoError(t, asks(s.dial(t), make([]byte, 44)))
	// A server that was not killed in time may be dead all the same.
	s.fault(t.Context(), Fault{Kind: "kill-server", Args: []string{"2"}})
	require.Contains(t, servers[1].done(), "start")
	// An unsupported fault is not retried, and that it cannot be healed is no problem.
	before := len(servers[1].done())
	s.fault(t.Context(), Fault{For: 500 * time.Millisecond, Kind: "cut-server", Args: []string{"2"}})
	require.Equal(t, []string{"run", "partition", "heal"}, servers[1].done()[before:])
	require.Equal(t, map[string]FaultCount{"isolate-leader": {Missed: 1}, "kill-server": {Missed: 1}, "cut-server": {Missed: 1}},
		s.result.Faults)
	require.Empty(t, s.result.Problems)
	require.Empty(t, s.reservations.states)
}

func TestFollowerIsAServingServerThatDoesNotLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		servers[1].dead = true // as one that is still starting
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
	require.Empty(t, s.result.Problems)

	servers[2].fails = map[string]error{"run": fmt.Errorf("exit code 1: %w", os.ErrProcessDone)}
	s.fault(t.Context(), Fault{Kind: "kill-server", Args: []string{"3"}})
	require.Equal(t, []string{"run", "start"}, servers[2].done())
	require.Equal(t, []string{"server 3 has ended unexpectedly: exit code 1: os: process already finished"}, s.result.Problems)
	require.Empty(t, s.reservations.states)
}

func TestUnusedParentIsReapedIfItWasSeenToDisappear(t *testing.T) {
	for _, one := range []struct {
		is     []bool // then as the last
		reaped bool
	}{
		{[]bool{true, true, false}, true}, {[]bool{false, true, true, false}, true}, {[]bool{true}, false}, {[]bool{false}, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := newTestRun()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			n := 0
			err := s.rest(ctx, containers[0], func(context.Context, string) (bool, error) {
				n++
				if n == 2 { // which says nothing
					return false, errors.New("not answered")
				}
				return one.is[min(n, len(one.is))-1], nil
			})
			if one.reaped {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errMissed)
		})
	}
}

func TestServerThatStaysDeadIsAProblem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		kill := Fault{Kind: "kill-server", Args: []string{"2"}}
		s.fault(t.Context(), kill)
		require.Empty(t, s.result.Problems)

		servers[1].dead = true
		s.fault(t.Context(), kill)
		require.Len(t, s.result.Problems, 1)
		require.Contains(t, s.result.Problems[0], "did not serve within 34s")
		require.Empty(t, s.reservations.states)
	})
}

func TestServerHasNoDeadlineWhileAnotherIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		servers[1].dead = true // for want of a quorum
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
		require.Empty(t, s.result.Problems)
		require.Equal(t, FaultCount{Injected: 1}, s.result.Faults["kill-server"])
	})
}

func TestRollingRestartIsInjectedOnlyIfAllServersRestarted(t *testing.T) {
	restart := Fault{Kind: "rolling-restart", For: time.Second}
	synctest.Test(t, func(t *testing.T) {
		s, servers := newTestRun()
		s.fault(t.Context(), restart)
		for _, one := range servers {
			require.Equal(t, []string{"run", "kill", "start"}, one.done())
		}
		require.Equal(t, FaultCount{Injected: 1}, s.result.Faults["rolling-restart"])
		require.Empty(t, s.result.Problems)
		require.Empty(t, s.reservations.states)
	})
	// The restart waits for a server that comes back later than planned, and restarts the others afterwards.
	synctest.Test(t, func(t *testing.T) {
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
		<-over // the wait ends, and the server is dead
		require.Equal(t, FaultCount{Missed: 1}, s.result.Faults["rolling-restart"])
		require.Len(t, s.result.Problems, 1)
		require.Contains(t, s.result.Problems[0], "restart server 1: it has not come back")
		require.Empty(t, s.reservations.states)
	})
	// If the run ends meanwhile, the server that is down is started, and no other is stopped.
	synctest.Test(t, func(t *testing.T) {
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
		require.Equal(t, FaultCount{Missed: 1}, s.result.Faults["rolling-restart"])
		require.Empty(t, s.result.Problems)
	})
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
	require.Equal(t, map[string]FaultCount{
		"delete-node": {Missed: 1}, "delete-parent": {Missed: 1}, "reap": {Missed: 1}, "counter": {Missed: 1},
	}, s.result.Faults)
}

func TestFaultsBeginAtTheirTimesInAnyPlanOrder(t *testing.T) {
	s, _ := newTestRun()
	s.opts.Plan = []Fault{
		{At: 300 * time.Millisecond, Kind: "pause-server", Args: []string{"1"}}, {At: 0, Kind: "kill-server", Args: []string{"2"}},
	}
	s.runNemesis(t.Context())
	var begun []string
	for _, e := range s.recorder.history() {
		require.Equal(t, history.Fault, e.Kind)
		begun = append(begun, e.Text)
	}
	require.Equal(t, []string{
		"at 0s for 0s kill-server 2", "over: at 0s for 0s kill-server 2", "at 300ms for 0s pause-server 1", "over: at 300ms for 0s pause-server 1",
	}, begun)
}
