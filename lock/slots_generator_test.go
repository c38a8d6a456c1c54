// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestGeneratorOfExampleMakesNoIDThatIsNotReserved(t *testing.T) {
	ensemble := zktest.Start(t, nil)
	client, err := recipes.Connect(t.Context(), ensemble.Addrs(), nil)
	require.NoError(t, err)
	defer client.Close()
	workers, err := lock.NewSlots(client, "/slots/generator", 2, nil)
	require.NoError(t, err)
	slot, err := workers.Acquire(t.Context())
	require.NoError(t, err)
	reserved, err := recipes.NewNode(client, fmt.Sprintf("/ids/%d", slot.Number()))
	require.NoError(t, err)
	g := &generator{slot: slot, reserved: reserved}

	refused := ensemble.Intercept(zktest.Rule{Op: "multi", Fail: zktest.ErrNoAuth})
	for range 2 {
		_, err = g.next(t.Context())
		require.ErrorIs(t, err, zk.ErrNoAuth)
	}
	refused.Remove()
	_, err = g.next(t.Context())
	require.NoError(t, err)

	require.NoError(t, ensemble.Set("/ids/0", []byte("damaged")))
	_, err = (&generator{slot: slot, reserved: reserved}).next(t.Context())
	require.ErrorContains(t, err, "damaged")
	require.NoError(t, slot.Unlock(t.Context()))
}
