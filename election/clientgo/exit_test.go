// SPDX-License-Identifier: Apache-2.0

package clientgo_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// exiting is a program as that of client-go's example: OnStoppedLeading exits the process. It stops at the first line that it
// reads, as other programs do at a SIGTERM.
var exiting = child.New("exiting", func(servers []string) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := recipes.Connect(ctx, servers, &recipes.Options{SessionTimeout: 40 * time.Second})
	if err != nil {
		return err
	}
	e, err := election.New(client, "/election/controller", nil)
	if err != nil {
		return err
	}
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		stop()
	}()
	return clientgo.RunConfig(ctx, e, leaderelection.LeaderElectionConfig{
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				fmt.Println("leads")
				<-ctx.Done()
			},
			OnStoppedLeading: func() { os.Exit(0) },
		},
	})
})

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

func TestNextCandidateLeadsBeforeSessionOfExitedProcessExpires(t *testing.T) {
	ensemble := zktest.Start(t, nil)
	p, err := child.Start(t, exiting.Command(t.Context(), ensemble.Addrs()))
	require.NoError(t, err)
	_, err = p.Await(t.Context(), "leads")
	require.NoError(t, err)
	require.Len(t, ensemble.Sessions(), 1)
	former := ensemble.Sessions()[0].ID

	client, err := recipes.Connect(t.Context(), ensemble.Addrs(), &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer client.Close()
	next, err := election.New(client, "/election/controller", nil)
	require.NoError(t, err)
	require.NoError(t, p.Send("stop"))
	term, err := next.Campaign(t.Context())
	require.NoError(t, err)
	var live []int64
	for _, session := range ensemble.Sessions() {
		live = append(live, session.ID)
	}
	require.Contains(t, live, former, "the candidate has not waited for the session's end")
	require.NoError(t, p.Wait())
	require.NoError(t, term.Resign(t.Context()))
}
