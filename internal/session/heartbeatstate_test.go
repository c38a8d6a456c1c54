// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

func none(*nodes.Node) bool { return false }

func TestHeartbeatBeginsWhenItIsDueOrWanted(t *testing.T) {
	var b heartbeatState
	now := time.Now()
	node := nodes.NewNode("/l", 1, "n")
	all := func(first []*nodes.Node) []*nodes.Node { return append(first, node) }

	checked, wanted, wait := b.begin(now, time.Second, none, all)
	require.Len(t, checked, 1)
	require.Empty(t, wanted)
	require.Zero(t, wait)
	checked, _, wait = b.begin(now.Add(time.Second/4), time.Second, none, all)
	require.Empty(t, checked)
	require.Equal(t, time.Second*3/4, wait)
	checked, _, _ = b.begin(now.Add(time.Second), time.Second, none, all)
	require.Len(t, checked, 1, "it is due, although the last one was not answered")
	checked, _, _ = b.begin(now.Add(time.Minute), time.Second, none, all)
	require.Empty(t, checked, "two are in flight")
	b.end(nil, time.Time{})
	asked := b.ask(node)
	checked, _, wait = b.begin(now.Add(5*time.Second/4), time.Second, none, all)
	require.Empty(t, checked, "a contender shares the next one")
	require.Equal(t, time.Second/4, wait)
	b.hasten(time.Second / 4)
	require.Equal(t, now.Add(5*time.Second/4), b.due())
	b.hasten(time.Minute)
	require.Equal(t, now.Add(5*time.Second/4), b.due(), "not later")

	b.end(nil, time.Time{})
	checked, wanted, _ = b.begin(now.Add(5*time.Second/4), time.Second, none, all)
	require.NotEmpty(t, checked, "a contender waits for it")
	require.Equal(t, []*proofRequest{asked}, wanted)
	b.end(wanted, time.Time{})
	checked, wanted, _ = b.begin(now.Add(5*time.Second/4), time.Second, none, all)
	require.NotEmpty(t, checked, "and waits again")
	require.Equal(t, []*proofRequest{asked}, wanted)
	b.end(nil, time.Time{})
	b.makeDue()
	require.True(t, b.due().IsZero())
}

// All nodes can be released between two rounds of the owner.
func TestHeartbeatWithoutNodesIsNotOnItsWay(t *testing.T) {
	var b heartbeatState
	node := nodes.NewNode("/l", 1, "n")
	asked, gone := b.ask(node), b.ask(node)
	gone.gone.Store(true)
	checked, wanted, wait := b.begin(time.Now(), time.Second, none, func([]*nodes.Node) []*nodes.Node { return nil })
	require.Empty(t, checked)
	require.Empty(t, wanted)
	require.Zero(t, wait)
	checked, wanted, _ = b.begin(time.Now(), time.Second, none, func(first []*nodes.Node) []*nodes.Node { return first })
	require.Equal(t, []*nodes.Node{node}, checked)
	require.Equal(t, []*proofRequest{asked}, wanted, "and not of the one that has gone")
}

// As many requests as a heartbeat has checks would keep all later ones out.
func TestRequestForANodeThatItsContenderHasLeftFails(t *testing.T) {
	var b heartbeatState
	left, node := nodes.NewNode("/l", 1, "left"), nodes.NewNode("/l", 1, "n")
	failed := b.ask(left)
	for range nodes.MaxChecks {
		b.ask(left)
	}
	asked := b.ask(node)
	isLeft := func(n *nodes.Node) bool { return n == left }
	checked, wanted, _ := b.begin(time.Now(), time.Second, isLeft, func(first []*nodes.Node) []*nodes.Node { return first })
	require.Equal(t, []*nodes.Node{node}, checked)
	require.Equal(t, []*proofRequest{asked}, wanted)
	<-failed.answered
	require.ErrorIs(t, failed.err, errReleased)
	b.end(nil, time.Time{})
	require.False(t, b.isNeeded(0))
}
