// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// These tests compare isolated servers with measurements of real ensembles: ticks of 2 s,
// a session timeout of 4 s, a sync limit of 5 ticks. Times are seconds after the
// isolation: node gone, last request answered, client disconnected.

// A load is the request that a client repeats, each time after the answer; a nil send
// means pings only.
type load struct {
	name string
	send func(conn *zk.Conn) error
}

var (
	pingsOnly = load{"pings only", nil}
	syncs     = load{"syncs", func(conn *zk.Conn) error { _, err := conn.Sync("/"); return err }}
	sets      = load{"sets", func(conn *zk.Conn) error { _, err := conn.Set("/data", nil, -1); return err }}
)

// isolationTimes are the times after the isolation of a client's server.
type isolationTimes struct {
	gone         time.Duration // its ephemeral node was gone for other clients
	lastOK       time.Duration // it sent its last request that was answered
	disconnected time.Duration // it was disconnected
}

// isolateServer isolates a server while a client of it sends load, and returns the
// client's times.
func isolateServer(t *testing.T, load load, server int, isolate func(t *testing.T, e *zktest.Ensemble) error) isolationTimes {
	t.Helper()
	e := inMemory(t, zktest.Options{Servers: 3, Tick: 2 * time.Second})
	require.NoError(t, e.Create("/data", nil))
	victim := connect(t, e, 4*time.Second, e.Server(server).Addr())
	victim.create("/mine", zk.FlagEphemeral)

	var lastOK time.Time
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(300 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			if load.send == nil {
				continue
			}
			sent := time.Now()
			err := load.send(victim.Conn)
			select {
			case <-stop: // answers after Heal do not count
			default:
				if err == nil {
					lastOK = sent
				}
			}
		}
	}()
	time.Sleep(10 * time.Second) // a settled session; in fake time
	began := time.Now()
	require.NoError(t, isolate(t, e))
	var d isolationTimes
	waitFor(t, "the node is gone", func() bool { _, _, err := e.Get("/mine"); return err != nil })
	d.gone = time.Since(began)
	waitFor(t, "the client is disconnected", func() bool { return !victim.since(zk.StateDisconnected, began).IsZero() })
	d.disconnected = victim.since(zk.StateDisconnected, began).Sub(began)
	close(stop)
	require.NoError(t, e.Server(server).Heal(t.Context()))
	<-stopped // the last request is answered: in go-zookeeper v1.0.4, Close during a request can block forever
	d.lastOK = lastOK.Sub(began)
	t.Logf("%s: node gone %+.2fs, last request answered %+.2fs, client disconnected %+.2fs",
		load.name, d.gone.Seconds(), d.lastOK.Seconds(), d.disconnected.Seconds())
	return d
}

func TestIsolatedFollowerStillAnswersPings(t *testing.T) {
	isolate := func(t *testing.T, e *zktest.Ensemble) error {
		t.Helper()
		return e.Server(2).Isolate(t.Context())
	}
	faketime.Test(t, func(t *testing.T) {
		d := isolateServer(t, pingsOnly, 2, isolate) // measured: +4.25, disconnected +9.84
		require.Greater(t, d.gone, 2*time.Second)
		require.Less(t, d.gone, 6*time.Second+time.Millisecond)
		require.Greater(t, d.disconnected, 9*time.Second, "the server answers pings until the sync limit")
		require.Less(t, d.disconnected, 11*time.Second)
	})
	for _, send := range []load{syncs, sets} {
		faketime.Test(t, func(t *testing.T) {
			d := isolateServer(t, send, 2, isolate) // measured: +5, −0.1, disconnected +2.5
			require.Less(t, d.lastOK, time.Duration(0), "syncs and sets need the leader")
			require.Greater(t, d.disconnected, time.Second)
			require.Less(t, d.disconnected, 3*time.Second, "pings wait behind unanswered requests")
			require.Greater(t, d.gone, d.disconnected)
		})
	}
}

func TestIsolatedLeaderStillAnswersSyncs(t *testing.T) {
	isolate := func(t *testing.T, e *zktest.Ensemble) error {
		t.Helper()
		return awaitLeader(t, e).Isolate(t.Context())
	}
	faketime.Test(t, func(t *testing.T) {
		d := isolateServer(t, pingsOnly, 1, isolate) // measured: +5.02, disconnected +11.54
		require.Greater(t, d.gone, 4*time.Second, "a new leader gives every session its whole timeout")
		require.Less(t, d.gone, 8*time.Second)
		require.Greater(t, d.disconnected, 9*time.Second)
	})
	faketime.Test(t, func(t *testing.T) {
		d := isolateServer(t, syncs, 1, isolate) // measured: +6.13, +9.96, disconnected +10.23
		require.Greater(t, d.lastOK, d.gone+time.Second, "a sync was answered over 1 s after the session had expired")
	})
	faketime.Test(t, func(t *testing.T) {
		d := isolateServer(t, sets, 1, isolate) // measured: +6.32, −0.32, disconnected +2.36
		require.Less(t, d.lastOK, time.Duration(0), "no write is answered")
		require.Less(t, d.disconnected, 3*time.Second)
	})
}

// After a lost reply, the Go client's protected create searches for its node on a server
// that has not applied the create yet, and creates another: measured in 3 of 3 attempts.
func TestAppliedCreateIsNotYetVisibleOnLaggingServer(t *testing.T) {
	protected := func(t *testing.T, beforeSearch func(e *zktest.Ensemble)) []string {
		t.Helper()
		e := inMemory(t, zktest.Options{Servers: 3, Tick: 2 * time.Second})
		require.NoError(t, e.Create("/lock", nil))
		c := connect(t, e, 4*time.Second, e.Server(2).Addr(), e.Server(3).Addr())
		beforeSearch(e)
		reset := time.AfterFunc(15*time.Millisecond, c.link.Reset)
		defer reset.Stop()
		path, err := c.CreateProtectedEphemeralSequential("/lock/lock-", nil, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		names, err := e.Children("/lock")
		require.NoError(t, err)
		var guids []string
		for _, name := range names {
			guids = append(guids, name[:36])
		}
		require.Contains(t, path, guids[0])
		if len(names) > 1 {
			require.True(t, strings.HasSuffix(path, "1"), "the client waits behind its own first node: %s of %q", path, names)
		}
		return guids
	}
	faketime.Test(t, func(t *testing.T) {
		guids := protected(t, func(e *zktest.Ensemble) {
			e.Server(2).Lag(500 * time.Millisecond)
			e.Server(3).Lag(500 * time.Millisecond)
		})
		require.Len(t, guids, 2)
		require.Equal(t, guids[0], guids[1], "both nodes belong to one attempt")
	})
	faketime.Test(t, func(t *testing.T) {
		guids := protected(t, func(e *zktest.Ensemble) { e.Server(2).Lag(500 * time.Millisecond) })
		require.Len(t, guids, 1, "an up-to-date server shows the first node")
	})
}
