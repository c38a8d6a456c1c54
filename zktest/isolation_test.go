// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// How real ensembles deceived their clients, as it was measured: ticks of 2 s, a
// session timeout of 4 s, a sync limit of 5 ticks. Times are seconds after the cut.

// traffic is what a client sends all the time: one request that takes its answer.
type traffic struct {
	name string
	send func(conn *zk.Conn) error
}

var (
	pingsOnly = traffic{"pings only", nil}
	syncs     = traffic{"syncs", func(conn *zk.Conn) error { _, err := conn.Sync("/"); return err }}
	sets      = traffic{"sets", func(conn *zk.Conn) error { _, err := conn.Set("/data", nil, -1); return err }}
)

// deceived is what became of a client whose server was cut off.
type deceived struct {
	gone         time.Duration // when its ephemeral node was gone for the others
	lastOK       time.Duration // when its last request that was answered was sent
	disconnected time.Duration // when it was told
}

// deceive has a client of one server send traffic, and cuts that server off.
func deceive(t *testing.T, send traffic, server int, cut func(e *zktest.Ensemble) error) deceived {
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
			if send.send == nil {
				continue
			}
			sent := time.Now()
			err := send.send(victim.Conn)
			select {
			case <-stop: // what is answered once the cut is mended does not count
			default:
				if err == nil {
					lastOK = sent
				}
			}
		}
	}()
	time.Sleep(10 * time.Second) // a session in its prime; in fake time
	began := time.Now()
	require.NoError(t, cut(e))
	var d deceived
	waitFor(t, "the node is gone", func() bool { _, _, err := e.Get("/mine"); return err != nil })
	d.gone = time.Since(began)
	waitFor(t, "the client is disconnected", func() bool { return !victim.since(zk.StateDisconnected, began).IsZero() })
	d.disconnected = victim.since(zk.StateDisconnected, began).Sub(began)
	close(stop)
	require.NoError(t, e.Server(server).Mend())
	<-stopped // the last request is answered: a Close that meets one can block in go-zookeeper v1.0.4 for ever
	d.lastOK = lastOK.Sub(began)
	t.Logf("%s: node gone %+.2fs, last request answered %+.2fs, client told %+.2fs",
		send.name, d.gone.Seconds(), d.lastOK.Seconds(), d.disconnected.Seconds())
	return d
}

func TestAFollowerWithoutItsLeaderGoesOnAnsweringPings(t *testing.T) {
	cut := func(e *zktest.Ensemble) error { return e.Server(1).CutFromLeader() }
	bubble(t, func(t *testing.T) {
		d := deceive(t, pingsOnly, 1, cut) // measured: +4.25, told +9.84
		require.Greater(t, d.gone, 2*time.Second)
		require.Less(t, d.gone, 6*time.Second+time.Millisecond)
		require.Greater(t, d.disconnected, 9*time.Second, "it was kept in the belief that all is well")
		require.Less(t, d.disconnected, 11*time.Second)
	})
	for _, send := range []traffic{syncs, sets} {
		bubble(t, func(t *testing.T) {
			d := deceive(t, send, 1, cut) // measured: +5, −0.1, told +2.5
			require.Less(t, d.lastOK, time.Duration(0), "neither passes without the leader")
			require.Greater(t, d.disconnected, time.Second)
			require.Less(t, d.disconnected, 3*time.Second, "pings wait behind what is not answered")
			require.Greater(t, d.gone, d.disconnected)
		})
	}
}

func TestADeposedLeaderGoesOnAnsweringSyncs(t *testing.T) {
	cut := func(e *zktest.Ensemble) error { _, err := e.Depose(); return err }
	bubble(t, func(t *testing.T) {
		d := deceive(t, pingsOnly, 0, cut) // measured: +5.02, told +11.54
		require.Greater(t, d.gone, 4*time.Second, "a new leader gives every session its whole timeout")
		require.Less(t, d.gone, 8*time.Second)
		require.Greater(t, d.disconnected, 9*time.Second)
	})
	bubble(t, func(t *testing.T) {
		d := deceive(t, syncs, 0, cut) // measured: +6.13, +9.96, told +10.23
		require.Greater(t, d.lastOK, d.gone+time.Second, "a sync was answered when the session was long gone")
	})
	bubble(t, func(t *testing.T) {
		d := deceive(t, sets, 0, cut) // measured: +6.32, −0.32, told +2.36
		require.Less(t, d.lastOK, time.Duration(0), "no write is")
		require.Less(t, d.disconnected, 3*time.Second)
	})
}

// The Go client's protected create searches after a lost reply, on a server that
// does not know of the create yet, and creates again: measured in 3 of 3 attempts.
func TestACreateIsAppliedAndNotYetVisible(t *testing.T) {
	protected := func(t *testing.T, beforeSearch func(e *zktest.Ensemble)) []string {
		t.Helper()
		e := inMemory(t, zktest.Options{Servers: 3, Tick: 2 * time.Second})
		require.NoError(t, e.Create("/lock", nil))
		c := connect(t, e, 4*time.Second, e.Server(1).Addr(), e.Server(2).Addr())
		beforeSearch(e)
		cut := time.AfterFunc(15*time.Millisecond, c.link.Cut)
		defer cut.Stop()
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
			require.True(t, strings.HasSuffix(path, "1"), "it queues behind itself: %s of %q", path, names)
		}
		return guids
	}
	bubble(t, func(t *testing.T) {
		guids := protected(t, func(e *zktest.Ensemble) {
			e.Server(1).Lag(500 * time.Millisecond)
			e.Server(2).Lag(500 * time.Millisecond)
		})
		require.Len(t, guids, 2)
		require.Equal(t, guids[0], guids[1], "two nodes of one attempt")
	})
	bubble(t, func(t *testing.T) {
		guids := protected(t, func(e *zktest.Ensemble) { e.Server(1).Lag(500 * time.Millisecond) })
		require.Len(t, guids, 1, "a server that is up to date shows it")
	})
}
