// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHeartbeatBeginsWhenItIsDueOrWanted(t *testing.T) {
	var b heartbeatState
	now := time.Now()
	node := NewNode("/l", 1, "n")
	all := func(first []*Node) []*Node { return append(first, node) }

	nodes, wanted, wait := b.begin(now, time.Second, all)
	require.Len(t, nodes, 1)
	require.Empty(t, wanted)
	require.Zero(t, wait)
	nodes, _, wait = b.begin(now.Add(time.Second/4), time.Second, all)
	require.Empty(t, nodes)
	require.Equal(t, time.Second*3/4, wait)
	nodes, _, _ = b.begin(now.Add(time.Second), time.Second, all)
	require.Len(t, nodes, 1, "it is due, although the last one was not answered")
	nodes, _, _ = b.begin(now.Add(time.Minute), time.Second, all)
	require.Empty(t, nodes, "two are in flight")
	b.end(nil, time.Time{})
	asked := b.ask(node)
	nodes, _, wait = b.begin(now.Add(5*time.Second/4), time.Second, all)
	require.Empty(t, nodes, "a contender shares the next one")
	require.Equal(t, time.Second/4, wait)
	b.hasten(time.Second / 4)
	require.Equal(t, now.Add(5*time.Second/4), b.due())
	b.hasten(time.Minute)
	require.Equal(t, now.Add(5*time.Second/4), b.due(), "not later")

	b.end(nil, time.Time{})
	nodes, wanted, _ = b.begin(now.Add(5*time.Second/4), time.Second, all)
	require.NotEmpty(t, nodes, "a contender waits for it")
	require.Equal(t, []*proofRequest{asked}, wanted)
	b.end(wanted, time.Time{})
	nodes, wanted, _ = b.begin(now.Add(5*time.Second/4), time.Second, all)
	require.NotEmpty(t, nodes, "and waits again")
	require.Equal(t, []*proofRequest{asked}, wanted)
	b.end(nil, time.Time{})
	b.makeDue()
	require.True(t, b.due().IsZero())
}

// All nodes can be released between two rounds of the owner.
func TestHeartbeatWithoutNodesIsNotOnItsWay(t *testing.T) {
	var b heartbeatState
	node := NewNode("/l", 1, "n")
	asked, gone := b.ask(node), b.ask(node)
	b.withdraw(gone)
	nodes, wanted, wait := b.begin(time.Now(), time.Second, func([]*Node) []*Node { return nil })
	require.Empty(t, nodes)
	require.Empty(t, wanted)
	require.Zero(t, wait)
	nodes, wanted, _ = b.begin(time.Now(), time.Second, func(first []*Node) []*Node { return first })
	require.Equal(t, []*Node{node}, nodes)
	require.Equal(t, []*proofRequest{asked}, wanted, "and not of the one that has gone")
}
