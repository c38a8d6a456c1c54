// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestPathHasTheNamespaceOfTheClient(t *testing.T) {
	client, err := recipes.Connect(t.Context(), zktest.Start(t, nil).Addrs(), &recipes.Options{Namespace: "/app"})
	require.NoError(t, err)
	defer client.Close()
	mutex, err := lock.New(client, "/a", nil)
	require.NoError(t, err)
	rw, err := lock.NewRW(client, "/a", nil)
	require.NoError(t, err)
	semaphore, err := lock.NewSemaphore(client, "/a", 2, nil)
	require.NoError(t, err)
	for _, recipe := range []interface{ Path() string }{mutex, rw, semaphore} {
		require.Equal(t, "/app/a", recipe.Path(), "%T", recipe)
	}
}

func TestPathThatEndsLikeAContenderIsRefused(t *testing.T) {
	client, err := recipes.Connect(t.Context(), zktest.Start(t, nil).Addrs(), nil)
	require.NoError(t, err)
	defer client.Close()
	const at, why = "/orders/clock-1700000000", "ends like a contender's node"
	_, err = lock.New(client, at, nil)
	require.ErrorContains(t, err, why)
	_, err = lock.NewRW(client, at, nil)
	require.ErrorContains(t, err, why)
	_, err = lock.NewSemaphore(client, at, 2, nil)
	require.ErrorContains(t, err, why)
	_, err = registration.Register(t.Context(), client, at, nil, nil)
	require.ErrorContains(t, err, why)
}
