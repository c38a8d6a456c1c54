// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// campaigns campaigns with a client until it leads, and sends its owner.
func campaigns(ctx context.Context, t *testing.T, client *recipes.Client, path string, leads chan<- string) {
	t.Helper()
	e, err := election.New(client, path, nil)
	require.NoError(t, err)
	go func() {
		term, err := e.Campaign(ctx)
		if err != nil {
			return
		}
		leads <- client.Owner()
		<-ctx.Done()
		_ = term.Resign(ctx)
	}()
}

func TestRunHandsItsElectionOverToTheNamedCandidate(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	first := startProcess(t, ensemble, "run", "--elect", "/workers", "--hand-over-to", "c", "--",
		"sh", "-c", "echo leads; exec sleep 60")
	first.awaitOutput("leads")
	leads := make(chan string, 2)
	for i, owner := range []string{"b", "c"} {
		campaigns(ctx, t, clientOf(t, ensemble, owner), "/workers", leads)
		requireContenders(t, ensemble, "/workers", 2+i)
	}
	require.NoError(t, first.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusSignalled+15, first.status())
	select {
	case leader := <-leads:
		require.Equal(t, "c", leader, "b, which is ahead of it, yields")
	case <-time.After(time.Minute):
		t.Fatal("no candidate leads")
	}
}

func TestRunEndsItsTermIfTheNamedCandidateIsMissing(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "run", "--elect", "/workers", "--hand-over-to", "gone", "--", "true")
	require.Zero(t, p.status())
	require.Contains(t, p.stderr.String(), `"gone"`)
	require.Contains(t, p.stderr.String(), "the next candidate leads")
	requireContenders(t, ensemble, "/workers", 0)
}

func TestHandOverIsRefusedForLocks(t *testing.T) {
	ensemble := startServers(t, nil)
	status, _, stderr := runInProcess(t, ensemble, "run", "--lock", "/a", "--hand-over-to", "b", "--", "true")
	require.Equal(t, statusUsage, status)
	require.Contains(t, stderr, "--hand-over-to applies to --elect with --servers only")
}
