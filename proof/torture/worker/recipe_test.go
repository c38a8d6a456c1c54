// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var recipePaths = []string{"/a", "/b", "/c", "/d", "/e", "/f"}

// startRecipes starts a worker of this library that exercises all recipes on servers of zktest. It has so many clients, and so
// many paths with readers and writers, that no recipe is rare: with few of them, one long hold delays all.
func startRecipes(t *testing.T) (servers *zktest.Ensemble, out *eventBuffer, in *io.PipeWriter, over chan error) {
	t.Helper()
	paths := recipePaths
	servers = zktest.Start(t, nil)
	spec, err := json.Marshal(Spec{
		Name: "c1.1", Servers: servers.Addrs(), Paths: paths, Timeout: history.Instant(4 * time.Second), Began: clock.Start().Began,
		First: 1, Clients: 16, Register: registersOf(t).Addr(), Seed: 1,
		Several: paths, Permits: paths[1:2], ReadWrite: paths[2:], Group: "/members", Schedules: "/schedules", Assignment: "/assignment", Elections: paths,
		Barrier: "/barrier", SetsBarrier: true, Double: "/double", DoubleSize: 1,
		Slots: "/slots", ResizesSlots: true,
	})
	require.NoError(t, err)
	commands, in := io.Pipe()
	out, over = &eventBuffer{}, make(chan error, 1)
	go func() { over <- RunWith(nil, string(spec), commands, out) }()
	t.Cleanup(func() { require.NoError(t, in.Close()) })
	return servers, out, in, over
}

func TestWorkerExercisesEveryRecipe(t *testing.T) {
	servers, out, in, over := startRecipes(t)
	exercised := func() map[string]bool {
		is, asked := map[string]bool{}, map[int]string{}
		for _, e := range out.events(t, history.Asked) {
			asked[e.Attempt] = attempt.RecipeOf(e.Text)
		}
		for _, e := range out.events(t, history.Granted) {
			is[asked[e.Attempt]] = true
		}
		is["downgrade"] = len(out.events(t, history.Downgrading)) > 0
		is["group"] = len(out.events(t, history.Listed)) > 0
		is["schedule"] = len(out.events(t, history.Ran)) > 0
		is["partition"] = len(out.events(t, history.Worked)) > 0
		for _, e := range out.events(t, history.Observed) {
			is["observer"] = true
			is["published value"] = is["published value"] || e.Write > 0
		}
		is["barrier"], is["double barrier"] = len(out.events(t, history.Passed)) > 0, len(out.events(t, history.Left)) > 0
		is["takeover"] = true // see takeover_test.go: no holder crashes here
		for _, path := range recipePaths {
			data, _, err := servers.Get(path + "-handover")
			is["hand-over"] = is["hand-over"] || err == nil && len(data) > 0
		}
		return is
	}
	require.Eventually(t, func() bool {
		is := exercised()
		return !slices.ContainsFunc(slices.Collect(maps.Keys(verdict.Recipes())), func(name string) bool { return !is[name] })
	}, 5*time.Minute, 50*time.Millisecond, "of %v", verdict.Recipes())
	_, err := io.WriteString(in, Stop+"\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(out.events(t, history.Stopped)) > 0 }, 5*time.Minute, 100*time.Millisecond)
	require.Eventually(t, func() bool { return !strings.Contains(servers.Dump(), " owner=0x") }, time.Minute, 100*time.Millisecond,
		"while all clients are connected, no node of theirs is left")
	_, err = io.WriteString(in, Close+"\n")
	require.NoError(t, err)
	require.NoError(t, <-over)
	require.Empty(t, out.events(t, history.Note))

	// A request for several locks has an attempt for each, and all of them end in the same way.
	ended := map[int]history.Kind{}
	for _, kind := range []history.Kind{history.Granted, history.Failed} {
		for _, e := range out.events(t, kind) {
			ended[e.Attempt] = kind
		}
	}
	parts := map[int]map[string]history.Kind{}
	for _, e := range out.events(t, history.Asked) {
		require.Equal(t, attempt.RecipeOf(e.Text) == "several locks", e.Together != 0, e)
		if e.Together == 0 {
			continue
		}
		if parts[e.Together] == nil {
			parts[e.Together] = map[string]history.Kind{}
		}
		parts[e.Together][e.Path] = ended[e.Attempt]
		require.Equal(t, ended[e.Together], ended[e.Attempt], e)
	}
	require.NotEmpty(t, parts)
	for attempt, of := range parts {
		require.GreaterOrEqual(t, len(of), 2, attempt)
	}
}

func TestHoldersOfReadersAndPermitsDoNotWriteToRegisters(t *testing.T) {
	for how, shares := range map[string]bool{
		read: true, acquire + "1": true, tryAcquire: true, slot: false, trySlot: false, write: false, downgrade: false, several: false, nested: false, "lock": false, "campaign": false,
	} {
		require.Equal(t, shares, kinds[how].shares, how)
	}
}

func TestTriedPermitsMayBeHeldByAnother(t *testing.T) {
	require.True(t, attempt.MayFail(tryAcquire, attempt.HeldByAnother))
	require.False(t, attempt.MayFail(acquire+"1", attempt.HeldByAnother))
}
