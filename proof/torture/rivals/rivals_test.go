// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/rivals"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// TestMain makes the test binary a worker process if the harness has started it as one. It is no role of package child: the
// harness, not a test, starts workers, and only by their command and worker.SpecVariable.
func TestMain(m *testing.M) {
	spec := os.Getenv(worker.SpecVariable)
	if spec == "" {
		flag.Parse()
		// All at the same time: mostly they wait for locks.
		if err := flag.Set("test.parallel", strconv.Itoa(1+len(rivals.All()))); err != nil {
			panic(err)
		}
		os.Exit(m.Run())
	}
	library := worker.Library(noExclusion{})
	if r := rivals.All()[os.Args[1]]; r != nil {
		library = r.Library
	}
	if err := worker.RunWith(library, spec, os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
}

// runRival runs a rival for the shortest time, without a fault.
func runRival(t *testing.T, name string, r *torture.Rival, servers int) *verdict.Result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	result, err := torture.Run(t.Context(), &torture.Options{
		Duration: 10 * time.Second, Seed: 1, Servers: servers, Contenders: 2, Faults: []string{"pause-contender"},
		Plan: []torture.Fault{}, Rival: r, Contender: []string{self, name},
		Log: t.Logf,
	})
	if errors.Is(err, stores.ErrNotInstalled) || errors.Is(err, docker.ErrNoBackend) {
		need.Lacking(t, "%v", err)
	}
	require.NoError(t, err)
	require.NoError(t, result.WriteSummary(t.Output()))
	return result
}

var sample = flag.Int("rivals.sample", 2, "rivals that are run without faults; 7 for all")

// Rivals are chosen at random. Without faults, one server of ZooKeeper does as well as three.
func TestRivalIsNotFoundBrokenWithoutFaults(t *testing.T) {
	t.Parallel()
	all, names := rivals.All(), rivals.Names()
	rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:min(*sample, len(names))] {
		r := all[name]
		servers := r.Count
		if r.Servers == nil {
			servers = 1
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := runRival(t, name, &r.Rival, servers)
			require.Equal(t, verdict.Unknown, result.Verdict, "no fault tested a promise")
			require.Empty(t, result.Findings)
			require.Greater(t, result.Numbers.Grants, 5)
			require.Positive(t, result.Numbers.Ends[history.GivenUp])
			require.Positive(t, result.Writes.All)
			require.Zero(t, result.Writes.Stale)
			require.Len(t, result.Acquired, 3, "every path can be acquired at the end")
			require.NotEmpty(t, result.On)
		})
	}
}

func TestLockWithoutExclusionIsDetected(t *testing.T) {
	t.Parallel()
	result := runRival(t, "noExclusion", &torture.Rival{Name: "noExclusion", Servers: startNothing}, 1)
	require.Equal(t, verdict.Broken, result.Verdict)
	require.Positive(t, result.Numbers.LateNotifications)
	require.Positive(t, result.Numbers.StaleBeliefs)
	require.Positive(t, result.Writes.Stale)
	require.Equal(t, result.Writes.Stale, result.Writes.AcceptedByBare)
	require.Zero(t, result.Writes.Rejected, "without tokens a register cannot reject")
	found := map[check.Rule]bool{}
	for _, f := range result.Findings {
		found[f.Rule] = true
	}
	require.True(t, found[check.SoleHolder])
	require.True(t, found[check.BareRegister])
}

// noExclusion is a lock without exclusion: every client is always granted it.
type noExclusion struct{}

func (noExclusion) Connect(context.Context, *worker.Spec) (worker.Client, error) {
	return noExclusion{}, nil
}
func (noExclusion) Supports(string) bool    { return true }
func (noExclusion) Reason(err error) string { return err.Error() }
func (noExclusion) Close()                  {}
func (noExclusion) Acquire(context.Context, string, string) (worker.Hold, error) {
	return held{make(chan struct{})}, nil
}

type held struct{ done chan struct{} }

func (held) Grant() history.Event    { return history.Event{} }
func (h held) Done() <-chan struct{} { return h.done }
func (held) Cause() history.Cause    { return history.GivenUp }
func (h held) Release(context.Context) error {
	close(h.done)
	return nil
}

// nothing is a torture.Servers of one server that does nothing.
type nothing struct{ net.Listener }

func startNothing(context.Context) (torture.Servers, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	return nothing{l}, err
}

func (n nothing) All() []torture.Server                          { return []torture.Server{listening(n)} }
func (n nothing) Leader(context.Context) (torture.Server, error) { return listening(n), nil }
func (nothing) About() string                                    { return "nothing" }
func (nothing) WaitServing(context.Context) error                { return nil }

type listening nothing

func (l listening) Addr() string                    { return l.Listener.Addr().String() }
func (listening) Kill(context.Context) error        { return nil }
func (listening) Start(context.Context) error       { return nil }
func (listening) Pause(context.Context) error       { return nil }
func (listening) Unpause(context.Context) error     { return nil }
func (listening) Partition(context.Context) error   { return nil }
func (listening) Isolate(context.Context) error     { return nil }
func (listening) Heal(context.Context) error        { return nil }
func (listening) WaitServing(context.Context) error { return nil }
func (listening) Log(context.Context) string        { return "" }
