// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestNoOtherWorkerLeadsWhileAnItemOverruns(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{
			Dial: ensemble.Dial, Logger: slog.New(slog.DiscardHandler),
		})
		require.NoError(t, err)
		defer client.Close()

		ctx, terminate := context.WithCancel(t.Context())
		defer terminate()
		finish := make(chan struct{})
		defer close(finish)
		err = run(ctx, client, func(context.Context, int) error {
			terminate()
			<-finish
			return nil
		})
		require.ErrorIs(t, err, election.ErrOverrun)
		synctest.Wait()
		names, err := ensemble.Children("/election/drain")
		require.NoError(t, err)
		require.Len(t, names, 1, "until the process exits")
	})
}
