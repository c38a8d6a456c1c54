// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

func TestDifferingServersAreDetected(t *testing.T) {
	e := docker.Start(t, nil)
	o := newOperator(append(e.Addrs(), e.Addrs()...))
	differ, err := o.differ(t.Context(), containers)
	require.NoError(t, err)
	require.Empty(t, differ)

	// Two independent servers differ as servers do that have lost transactions.
	other := docker.Start(t, nil)
	o = newOperator(append(e.Addrs(), other.Addrs()...))
	require.NoError(t, newOperator(other.Addrs()).do(t.Context(), func(conn *zk.Conn) error {
		for _, path := range []string{root, containers[0], containers[0] + "/x-lock-0000000000"} {
			if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
				return err
			}
		}
		return nil
	}))
	differ, err = o.differ(t.Context(), containers)
	require.NoError(t, err)
	require.Contains(t, differ, "x-lock-0000000000")

	leftNodes, err := newOperator(other.Addrs()).leftNodes(t.Context(), containers)
	require.NoError(t, err)
	require.Equal(t, []string{containers[0] + "/x-lock-0000000000"}, leftNodes)
	require.NoError(t, newOperator(other.Addrs()).deleteNode(t.Context(), containers[0], 5))
	require.ErrorContains(t, newOperator(other.Addrs()).deleteNode(t.Context(), containers[0], 0), "its queue is empty")
	require.NoError(t, newOperator(other.Addrs()).deleteParent(t.Context(), containers[0]))
}

func TestNextSequenceNumberFollowsFromStat(t *testing.T) {
	for _, created := range []int32{0, 1, 7, 1 << 30, 1<<30 + 1, counterPlanted, counterEnd - 1, counterEnd} {
		for _, children := range []int32{0, 1, 5} {
			cversion := 2*created - children // it overflows, as in the servers
			require.Equal(t, created, nextSequence(&zk.Stat{Cversion: cversion, NumChildren: children}))
		}
	}
}

func TestOperatorReturnsNextSequenceNumber(t *testing.T) {
	e := docker.Start(t, &docker.Options{Counters: map[string]int32{countedPath: counterPlanted, root + "/stuck": counterEnd - 1}})
	o := newOperator(e.Addrs())
	next, err := o.counter(t.Context(), countedPath)
	require.NoError(t, err)
	require.EqualValues(t, counterPlanted, next)
	join := func(path string) (name string) {
		require.NoError(t, o.do(t.Context(), func(conn *zk.Conn) (err error) {
			name, err = conn.Create(path+"/x-lock-", nil, zk.FlagSequence, zk.WorldACL(zk.PermAll))
			return err
		}))
		return name
	}
	for _, path := range []string{countedPath, root + "/stuck"} {
		for range 3 { // at the stuck path, the last ones are beyond the end
			next, err := o.counter(t.Context(), path)
			require.NoError(t, err)
			name := join(path)
			require.Equal(t, fmt.Sprintf("%s/x-lock-%010d", path, next), name)
			require.NoError(t, o.deleteNode(t.Context(), path, 0)) // a deletion changes the Stat, too
		}
	}
	next, err = o.counter(t.Context(), root+"/stuck")
	require.NoError(t, err)
	require.EqualValues(t, counterEnd, next)

	_, err = o.counter(t.Context(), root+"/nowhere")
	require.ErrorIs(t, err, zk.ErrNoNode)
	for path, is := range map[string]bool{countedPath: true, root + "/nowhere": false} {
		exists, err := o.exists(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, is, exists)
	}
}

// The commit order is read again from the servers' logs, for which the operator's sessions must be known.
func TestReorderNeedsTheOperatorsSessions(t *testing.T) {
	result := verdict.Result{OperatorSessions: newOperator(nil).ownSessions()}
	require.NoError(t, Reorder(&result, t.TempDir()))
	require.ErrorContains(t, Reorder(new(verdict.Result), t.TempDir()), "the run does not record which sessions were the operator's")
}
