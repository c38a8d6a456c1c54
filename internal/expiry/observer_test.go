// SPDX-License-Identifier: Apache-2.0

package expiry

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// newTestObserver returns an observer whose goroutine does not run.
func newTestObserver() *observer {
	o := newObserver(nil)
	o.started = true
	return o
}

func TestFirstSightOfEachVersionCounts(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		o := newTestObserver()
		seen := func(version int32) { o.see("/l/a", version, 32*time.Second, time.Now()) }
		left := func() time.Duration { _, wait := o.expired(); return wait }
		seen(1)
		require.Equal(t, 33*time.Second, left())
		time.Sleep(10 * time.Second)
		seen(1)
		require.Equal(t, 23*time.Second, left(), "the same version")
		seen(2)
		require.Equal(t, 33*time.Second, left())
		time.Sleep(10 * time.Second)
		seen(1)
		require.Equal(t, 23*time.Second, left(), "an answer that is older")
		o.forget("/l/a", 1)
		require.Equal(t, 23*time.Second, left(), "of the version that it was")
		time.Sleep(23 * time.Second)
		expired, _ := o.expired()
		require.Len(t, expired, 1)
		require.Equal(t, int32(2), expired[0].version)
		o.restart()
		require.Equal(t, 33*time.Second, left())
		o.forget("/l/a", 2)
		require.Empty(t, o.nodes)
		require.Nil(t, o.due.first())
		require.Nil(t, o.last.first())
	})
}

func TestAllExpiredNodesAreReturned(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		o := newTestObserver()
		for i := range 1000 {
			o.see(fmt.Sprint(i), 0, time.Duration((i*7919)%1000+1)*32*time.Millisecond, time.Now())
		}
		time.Sleep(500 * 33 * time.Millisecond)
		expired, _ := o.expired()
		require.Len(t, expired, 500)
		for _, n := range expired {
			require.LessOrEqual(t, n.expires, 500*33*time.Millisecond)
			o.forget(n.path, n.version)
		}
		_, wait := o.expired()
		require.Equal(t, 33*time.Millisecond, wait)
	})
}

// A pass that takes longer than T/4 passes for an outage, after which all nodes are observed again.
func TestPassHasBoundedNumberOfNodes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		o := newTestObserver()
		for i := range 3 * maxExpired {
			o.see(fmt.Sprint(i), 0, time.Second, time.Now())
		}
		time.Sleep(2 * time.Second)
		for range 3 {
			expired, _ := o.expired()
			require.Len(t, expired, maxExpired)
			for _, n := range expired {
				o.forget(n.path, n.version)
			}
		}
		require.Empty(t, o.nodes)
	})
}

func TestObserverHasBoundedNumberOfNodes(t *testing.T) {
	need.NoRaceDetector(t)
	o := newTestObserver()
	for i := range maxObserved + 10 {
		o.see(fmt.Sprint(i), 0, time.Minute, time.Now())
	}
	require.Len(t, o.nodes, maxObserved)
}

// Otherwise one tenant with very many long leases would have the short ones of all others stay forever.
func TestLongLeasesDoNotKeepAShortOneFromExpiring(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		o := newTestObserver()
		for i := range maxObserved {
			o.see(fmt.Sprint(i), 0, time.Hour+time.Duration((i*7919)%maxObserved)*time.Microsecond, time.Now())
		}
		for i := range 3 {
			o.see(fmt.Sprint("victim ", i), 0, time.Second, time.Now())
		}
		require.Len(t, o.nodes, maxObserved)
		for i := range maxObserved { // those that expire last have made room
			last := (i*7919)%maxObserved >= maxObserved-3
			require.Equal(t, last, o.nodes[fmt.Sprint(i)] == nil)
		}
		time.Sleep(2 * time.Second)
		expired, _ := o.expired()
		require.Len(t, expired, 3)
		for _, n := range expired {
			o.forget(n.path, n.version)
		}
		require.Len(t, o.nodes, maxObserved-3)
		o.see("later", 0, 24*time.Hour, time.Now())
		require.NotNil(t, o.nodes["later"], "there is room again")
	})
}

func TestFullObserverForgetsNoNodeForOneThatExpiresLater(t *testing.T) {
	need.NoRaceDetector(t)
	faketime.Test(t, func(t *testing.T) {
		o := newTestObserver()
		for i := range maxObserved {
			o.see(fmt.Sprint(i), 0, time.Second, time.Now())
		}
		o.see("0", 1, time.Hour, time.Now())
		o.see("later", 0, 2*time.Hour, time.Now())
		require.Nil(t, o.nodes["later"])
		o.see("sooner", 0, time.Minute, time.Now())
		require.Nil(t, o.nodes["0"], "its new version expires last")
		require.NotNil(t, o.nodes["sooner"])
		time.Sleep(2 * time.Second)
		o.restart()
		time.Sleep(time.Second)
		o.see("sooner", 1, time.Second, time.Now())
		o.see("now", 0, time.Nanosecond, time.Now())
		require.NotNil(t, o.nodes["now"])
		require.Nil(t, o.nodes["sooner"], "the others began before it")
	})
}
