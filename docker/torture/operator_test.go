// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
)

func TestServersThatDifferAreToldApart(t *testing.T) {
	e := docker.Start(t, nil)
	o := newOperator(append(e.Addrs(), e.Addrs()...))
	differ, err := o.differ(t.Context(), containers)
	require.NoError(t, err)
	require.Empty(t, differ)

	// Two that know nothing of each other are what servers are like that have lost something.
	other := docker.Start(t, nil)
	o = newOperator(append(e.Addrs(), other.Addrs()...))
	require.NoError(t, newOperator(other.Addrs()).errand(t.Context(), func(conn *zk.Conn) error {
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

	left, err := newOperator(other.Addrs()).left(t.Context(), containers)
	require.NoError(t, err)
	require.Equal(t, []string{containers[0] + "/x-lock-0000000000"}, left)
	require.NoError(t, newOperator(other.Addrs()).deleteNode(t.Context(), containers[0], 5))
	require.ErrorContains(t, newOperator(other.Addrs()).deleteNode(t.Context(), containers[0], 0), "nobody is at")
	require.NoError(t, newOperator(other.Addrs()).deleteParent(t.Context(), containers[0]))
}
