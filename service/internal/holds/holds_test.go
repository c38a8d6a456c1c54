// SPDX-License-Identifier: Apache-2.0

package holds

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

// A followed table is one in fake time.
type followed struct {
	*testing.T
	*Table
	log   bytes.Buffer
	ended []time.Duration
}

func follow(t *testing.T, f func(w *followed)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		w := &followed{T: t}
		w.Table = New(slog.New(slog.NewTextHandler(&w.log, nil)), func(held time.Duration, _ bool) { w.ended = append(w.ended, held) })
		f(w)
	})
}

func of(node string) Lease {
	return Lease{Node: node, Request: "r", Namespace: "team", Key: "orders", Principal: "p", Owner: "w1", Valid: 30 * time.Second}
}

// habit holds the lock a few times.
func (w *followed) habit(n int, held time.Duration) {
	for i := range n {
		w.Written(of(fmt.Sprint("habit", i)))
		time.Sleep(held)
		w.Released(fmt.Sprint("habit", i), "r")
	}
}

// held renews a lease for a time.
func (w *followed) held(l Lease, d time.Duration) {
	for began := time.Now(); time.Since(began) < d; time.Sleep(10 * time.Second) {
		w.Written(l)
		l.Renewal = true
	}
}

func TestLeaseHeldFarLongerThanUsualIsOverdue(t *testing.T) {
	follow(t, func(w *followed) {
		w.habit(5, 20*time.Second)
		w.held(of("stuck"), 195*time.Second)
		require.Equal(w, Counts{Locks: 1, Owners: 1}, w.Count())
		require.Empty(w, w.log.String())
		w.held(of("stuck"), 20*time.Second)
		require.Equal(w, Counts{Locks: 1, Owners: 1, Overdue: 1}, w.Count())
		require.Equal(w, 1, w.Count().Overdue)
		require.Equal(w, 1, bytes.Count(w.log.Bytes(), []byte("\n")), "it is logged once")
		require.Contains(w, w.log.String(), "namespace=team key=orders owner=w1 held=3m40s usual=20s")
		w.Released("stuck", "r")
		require.Zero(w, w.Count())
	})
}

func TestShortHoldIsNeverOverdue(t *testing.T) {
	follow(t, func(w *followed) {
		w.habit(5, time.Millisecond)
		w.held(of("long"), 50*time.Second)
		require.Zero(w, w.Count().Overdue, "ten times the usual time is 10 ms")
		w.held(of("long"), 20*time.Second)
		require.Equal(w, 1, w.Count().Overdue)
	})
}

func TestLockWithoutHabitAndElectionAreNeverOverdue(t *testing.T) {
	follow(t, func(w *followed) {
		w.habit(4, time.Second)
		w.held(of("long"), time.Hour)
		require.Zero(w, w.Count().Overdue)
		w.Released("long", "r")
		w.habit(20, time.Second)
		leader := of("leader")
		leader.Election = true
		w.held(leader, time.Hour)
		require.Equal(w, Counts{Elections: 1, Owners: 1}, w.Count())
	})
}

func TestOneLongHoldDoesNotBecomeUsual(t *testing.T) {
	follow(t, func(w *followed) {
		w.habit(15, 10*time.Second)
		w.held(of("long"), time.Hour)
		w.Released("long", "r")
		w.held(of("again"), 2*time.Minute)
		require.Equal(w, 1, w.Count().Overdue)
	})
}

func TestLeaseThatRunsOutOrEndsElsewhereIsNoHold(t *testing.T) {
	follow(t, func(w *followed) {
		w.Written(of("elsewhere"))
		time.Sleep(31 * time.Second)
		require.Equal(w, 1, w.Count().Locks, "its observer has not deleted it yet")
		time.Sleep(time.Second)
		require.Zero(w, w.Count())
		w.Written(of("gone"))
		w.Forget("gone")
		moved := of("moved")
		moved.Renewal = true
		w.Written(moved)
		time.Sleep(time.Second)
		w.Released("moved", "r")
		require.Empty(w, w.ended, "the replica has not seen the grant, or not the end")
		w.Written(of("expired"))
		time.Sleep(30 * time.Second)
		w.Ended("expired")
		require.Equal(w, []time.Duration{30 * time.Second}, w.ended)
		require.Zero(w, w.Count())
	})
}

func TestSharedLeaseEndsWithItsLastPart(t *testing.T) {
	follow(t, func(w *followed) {
		second := of("shared")
		second.Request = "r2"
		w.Written(of("shared"))
		time.Sleep(time.Second)
		w.Written(second)
		w.Written(second)
		w.Released("shared", "r")
		require.Equal(w, Counts{Locks: 1, Owners: 1}, w.Count())
		time.Sleep(time.Second)
		w.Released("shared", "r2")
		require.Zero(w, w.Count())
		require.Equal(w, []time.Duration{2 * time.Second}, w.ended)
	})
}

func TestCountLooksAtAllLeasesOnceASecond(t *testing.T) {
	follow(t, func(w *followed) {
		w.habit(5, 20*time.Second)
		w.Written(of("released"))
		leader := of("leader")
		leader.Election = true
		w.held(of("stuck"), 220*time.Second)
		w.Written(leader)
		w.Written(of("released"))
		require.Equal(w, Counts{Locks: 2, Elections: 1, Owners: 1, Overdue: 1}, w.Count())
		looked := w.looked
		for range 9 {
			time.Sleep(time.Second / 10)
			w.Count()
		}
		require.Equal(w, looked, w.looked)
		w.Released("released", "r")
		require.Equal(w, Counts{Locks: 1, Elections: 1, Owners: 1, Overdue: 1}, w.Count(), "leases that end are counted immediately")
		w.Ended("stuck")
		require.Equal(w, Counts{Elections: 1, Owners: 1}, w.Count())
		time.Sleep(time.Second)
		w.Count()
		require.Less(w, looked, w.looked)
	})
}

func TestTableOfLeasesIsBounded(t *testing.T) {
	follow(t, func(w *followed) {
		for i := range maxLeases + 10 {
			l := of(fmt.Sprint(i))
			l.Key = l.Node
			w.Written(l)
		}
		require.Equal(w, maxLeases, w.Count().Locks)
		for i := range maxLeases + 10 {
			w.Released(fmt.Sprint(i), "r")
		}
		require.Len(w, w.locks, maxLocks)
		require.Empty(w, w.owners)
	})
}

// A lease that does not count adds nothing to the budget for renewals of its principal.
func TestLeasesOfOnePrincipalLeaveRoomForThoseOfOthers(t *testing.T) {
	follow(t, func(w *followed) {
		written := func(principal, node string) {
			l := of(node)
			l.Principal, l.Valid = principal, time.Hour
			w.Written(l)
		}
		written("c", "c")
		for i := range maxLeases {
			written("a", fmt.Sprint(i))
		}
		for i := range 10 {
			written("b", fmt.Sprint("b", i))
		}
		require.Equal(w, []int{maxLeases - 11, 10, 1}, []int{w.Of("a"), w.Of("b"), w.Of("c")})
		require.Equal(w, maxLeases, w.Count().Locks)
		w.Released("b0", "r")
		require.Equal(w, 9, w.Of("b"))
	})
}
