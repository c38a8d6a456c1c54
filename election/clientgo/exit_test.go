// SPDX-License-Identifier: Apache-2.0

package clientgo_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A candidacy is the task of exiting.
type candidacy struct{ Election, Registered string }

// exiting is a program like client-go's example: OnStoppedLeading exits the process. It stops at the first line that it
// reads, as other programs do at a SIGTERM. The node that it registers exists until its session has expired.
var exiting = child.New("exiting", func(c candidacy) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := recipes.Connect(ctx, servers(), &recipes.Options{SessionTimeout: 40 * time.Second})
	if err != nil {
		return err
	}
	if _, err := registration.Register(ctx, client, c.Registered, nil, nil); err != nil {
		return err
	}
	e, err := election.New(client, c.Election, nil)
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
				fmt.Println("leads with session", client.SessionID())
				<-ctx.Done()
			},
			OnStoppedLeading: func() { os.Exit(0) },
		},
	})
})

// The examples and the test of an exiting process connect to ZK_SERVERS, as programs do.
func TestMain(m *testing.M) {
	child.Main()
	os.Exit(zktest.MainWithServers(m))
}

func servers() []string { return strings.Split(os.Getenv(zktest.ServersVariable), ",") }

func TestNextCandidateLeadsBeforeSessionOfExitedProcessExpires(t *testing.T) {
	run := "/" + rand.Text() // a real server keeps what an earlier run has left
	c := candidacy{Election: run + "/election", Registered: run + "/registered"}
	p, err := child.Start(t, exiting.Command(t.Context(), c))
	require.NoError(t, err)
	line, err := p.Await(t.Context(), "leads")
	require.NoError(t, err)

	client, err := recipes.Connect(t.Context(), servers(), &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer client.Close()
	next, err := election.New(client, c.Election, nil)
	require.NoError(t, err)
	require.NoError(t, p.Send("stop"))
	term, err := next.Campaign(t.Context())
	require.NoError(t, err)
	// One transaction of the servers ends a session and deletes all its nodes.
	_, stat, err := client.Conn().Get(client.Path(c.Registered))
	require.NoError(t, err, "the candidate has waited until the former session expired")
	require.Equal(t, line, fmt.Sprint("leads with session ", stat.EphemeralOwner))
	require.NoError(t, p.Wait())
	require.NoError(t, term.Resign(t.Context()))
}
