// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// command makes a process the command. Its contenders inherit the role: for them, the environment has a worker's task.
var command = child.New("torture", func(args []string) error {
	os.Args = append(os.Args[:1], args...)
	main()
	return nil
})

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

// tortured returns the command in its own process. Its temporary files go to its own folder, in which nothing may be left. With
// the race detector, the test fails for every race in it or a contender, except those inside the ZooKeeper client.
func tortured(t *testing.T, args ...string) (_ *exec.Cmd, temporary string) {
	t.Helper()
	cmd := command.Command(t.Context(), args)
	// The ZooKeeper client itself has a race: on a new connection it reads the last zxid while it writes it (conn.go, 614 and
	// 849). So a race does not change the status of a process. Each process has its own file for race reports: on the shared
	// standard error, their lines would mix.
	reports := t.TempDir()
	temporary = t.TempDir()
	cmd.Env = append(cmd.Env, "TMPDIR="+temporary,
		"GORACE=exitcode=0 log_path="+filepath.Join(reports, "race"),
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -ldflags=-s") // what it builds is not debugged, and linked in half the time
	cmd.WaitDelay = 30 * time.Second
	t.Cleanup(func() {
		files, err := filepath.Glob(filepath.Join(reports, "*"))
		require.NoError(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, race := range racesOfOurs(string(text)) {
				t.Errorf("%s: %s", filepath.Base(file), race)
			}
		}
	})
	return cmd, temporary
}

// servers reports whether servers can be run, by starting one, once for all tests.
var servers struct {
	once             sync.Once
	started, skipped bool
}

// needServers skips the test if there is nothing to run servers with, and in CI fails it.
func needServers(t *testing.T) {
	t.Helper()
	servers.once.Do(func() {
		servers.started = t.Run("servers can be run", func(t *testing.T) {
			t.Cleanup(func() { servers.skipped = t.Skipped() })
			docker.Start(t, nil)
		})
	})
	if !servers.started {
		t.FailNow()
	}
	if servers.skipped {
		t.SkipNow()
	}
}

func TestInvalidFlagIsRejectedWithAllowedValues(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.txt")
	require.NoError(t, os.WriteFile(plan, []byte("at 1s for 2s flood 1\n"), 0o600))
	for _, wrong := range []struct{ args, want string }{
		{"-duration abc", `invalid value "abc" for flag -duration`},
		{"-duration 1s", "duration 1s: allowed are 10s to 24h"},
		{"-servers 2", "2 servers: allowed are 3 and 5"},
		{"-faults flood", `fault "flood": allowed are cancel-waiters, counter, delete-node`},
		{"-faults kill-server,", `fault "": allowed are`},
		{"-contenders 0", "0 contenders: allowed are 1 to 16"},
		{"-clients 0", "0 clients: allowed are 1 to 16"},
		{"-timeout 0s", "session timeout 0s: allowed are 2s to 40s"},
		{"-contenders 17", "17 contenders: allowed are 1 to 16"},
		{"-clients -1", "-1 clients: allowed are 1 to 16"},
		{"-waiters -1", "-1 waiters: allowed are 0 to 1000"},
		{"-holds 10001", "10001 holds: allowed are 0 to 10000"},
		{"-replicas 9", "9 replicas: allowed are 0 to 8"},
		{"-replicas 2 -contenders 1", "1 contenders: at least 2 are needed with a lock service"},
		{"-replicas 2 -holds 1", "1 holds: they are not supported with a lock service"},
		{"-faults kill-replica", "fault kill-replica: there are no replicas of a lock service"},
		{"-timeout 1h", "session timeout 1h0m0s: allowed are 2s to 40s"},
		{"-seed x", `invalid value "x" for flag -seed`},
		{"-plan " + plan, `line 1: unknown fault "flood": allowed are cancel-waiters, counter`},
		{"-plan /nonexistent", "no such file"},
		{"-contender x -faults step-clock", "step-clock: these contenders' clocks cannot be stepped"},
		{"-contender x -faults kill-server -mutant y", "-mutant: not allowed with -contender: a mutant breaks this library"},
		{"-mutant /nonexistent", "-mutant: stat /nonexistent: no such file"},
		{"now", `unexpected argument "now"`},
		{"-judge /nonexistent", "judging /nonexistent again: open /nonexistent/result.json: no such file"},
		{"-judge " + filepath.Dir(plan), "result.json: no such file"},
		{"-judge " + filepath.Dir(plan) + " -seed 1", "no other flag is allowed"},
		{"-judge=", "-judge: name the folder of a run"},
	} {
		var problems bytes.Buffer
		require.Equal(t, notRun, run(strings.Fields(wrong.args), io.Discard, &problems), wrong.args)
		require.Contains(t, problems.String(), wrong.want)
	}
}

func TestRepeatCommandUsesAnotherFolder(t *testing.T) {
	j, err := parse([]string{"-seed", "7", "-out", "/evidence"}, io.Discard)
	require.NoError(t, err)
	command := again(&j.opts, j.dir)
	require.Contains(t, command, "SEED=7")
	require.Contains(t, command, "-plan /evidence/plan.txt -out /evidence-again ")
	require.Contains(t, command, "make torture DURATION")
	j.opts.Replicas = 3
	require.Contains(t, again(&j.opts, j.dir), "make torture-service REPLICAS=3 DURATION")
}

func TestEmptyPlanIsAPlan(t *testing.T) {
	j, err := parse([]string{"-plan", filepath.Join(folder(t, map[string]string{"none": "# nothing\n"}), "none")}, io.Discard)
	require.NoError(t, err)
	require.NotNil(t, j.opts.Plan, "else one is drawn")
	require.Empty(t, j.opts.Plan)
}

func TestInterruptionReportsWhetherAnythingIsLeft(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	left := errors.Join(context.Canceled, &torture.LeftError{Err: errors.New("umount: busy")})
	for _, c := range []struct {
		err    error
		before int
		status int
		says   string
	}{
		{context.Canceled, notRun, interrupted, "interrupted; everything is removed"},
		{left, notRun, notRun, "interrupted; not everything is removed: "},
	} {
		var problems bytes.Buffer
		require.Equal(t, c.before, failure(t.Context(), c.err, &problems), "it was not interrupted")
		require.NotContains(t, problems.String(), "interrupted")
		require.Equal(t, c.status, failure(over, c.err, &problems))
		require.Contains(t, problems.String(), c.says)
	}
}

// short is the torture that the tests have time for. T is a little shorter than usual, so that all kinds of faults fit. Each
// process has 2 clients, 4 additional waiters, 1 on each path, and 10 additional holds: more, under the race detector, starve two
// cores.
var short = torture.Options{Duration: 40 * time.Second, Timeout: 3 * time.Second, Servers: 3, Clients: 2, Waiters: 1, Holds: 10, Steps: true}

// shortPlan has a holder that is partitioned while nothing else is wrong, a volley at holders, and every kind of fault: a generated
// plan of this length would not have all that. On a busy machine a fault can miss its holder, so that others are partitioned and paused
// later. A server that is hit has time to come back before the next one, and the restart of all waits until it has.
const shortPlan = `
at 1s for 5.5s partition-contender holder both

at 7.5s for 5s pause-contender holder
at 7.8s for 5s partition-contender holder to-server
at 8.1s for 2s kill-contender holder

at 12s for 1s kill-server 1
at 15s for 1.5s pause-server leader
at 17s for 1.5s partition-server 2
at 19.5s for 2.3s partition-follower follower
at 22.3s for 2.3s isolate-leader 1
at 25.5s for 2.5s fill-disk follower
at 29s for 10s rolling-restart

at 12.5s for 3s slow 2 500ms
at 13s for 2s expire-sessions 1
at 14s for 2s lose-reply 3 join
at 16s for 2s refuse 4
at 16.5s for 5s step-clock 2 5s
at 18s for 1s delete-node /torture/a 0
at 18.5s for 2s lose-reply 1 release
at 19s for 200ms cancel-waiters /torture/b
at 20.5s for 1s delete-parent /torture/c
at 21.5s for 2s lose-reply 2 heartbeat
at 24s for 1.5s partition-contender 3 to-client
at 26.5s for 5s pause-contender holder
at 28s for 1s kill-contender 4
at 29s for 8s reap /torture/b
at 33s for 2s expire-sessions 3
at 34s for 5.5s partition-contender holder both
`

func TestShortPlanHasEveryKind(t *testing.T) {
	plan, err := torture.ReadPlan(strings.NewReader(shortPlan))
	require.NoError(t, err)
	opts := short
	opts.Plan = plan
	require.NoError(t, opts.Check())
	// The counter is set before the servers start, not by the plan.
	for _, kind := range opts.Kinds() {
		require.True(t, kind == "counter" || slices.ContainsFunc(plan, func(f torture.Fault) bool { return f.Kind == kind }), kind)
	}
}

// An hour of this is what `make torture DURATION=1h` runs.
func TestShortTortureFindsNothing(t *testing.T) {
	needServers(t)
	dir := t.TempDir()
	file := filepath.Join(t.TempDir(), "plan.txt")
	require.NoError(t, os.WriteFile(file, []byte(shortPlan), 0o600))
	cmd, temporary := tortured(t, "-duration", short.Duration.String(), "-timeout", short.Timeout.String(), "-seed", "1", "-out", dir,
		"-clients", fmt.Sprint(short.Clients), "-waiters", fmt.Sprint(short.Waiters), "-holds", fmt.Sprint(short.Holds), "-plan", file)
	cmd.Stderr = t.Output()
	summary, err := cmd.Output()
	t.Logf("%s", summary)
	if exit := new(exec.ExitError); errors.As(err, &exit) && (exit.ExitCode() == unknown || exit.ExitCode() == broken) {
		err = nil // so short a run on a busy machine need not test every promise; the result shows what is broken
	}
	require.NoError(t, err)
	requireEmpty(t, temporary)

	result, err := readResult(dir)
	require.NoError(t, err)
	require.Len(t, result.Recipes, len(verdict.Recipes()))
	for _, p := range result.Promises {
		if p.Rule == check.HolderInTime && p.Verdict == verdict.Broken {
			t.Logf("not judged: %s: beside other tests, clients wait for longer than T for the processors", p.Rule)
			continue
		}
		require.NotEqual(t, verdict.Broken, p.Verdict, p.Rule)
		switch p.Rule {
		case check.FirstInQueue, check.RisingTokens, check.NotifiedFirst, check.NotifiedAtAll, check.NothingLeft:
			require.Equal(t, verdict.Valid, p.Verdict, p.Rule)
		default:
		}
	}
	require.Equal(t, "lockkeeper", result.Contender)
	require.Equal(t, []int{short.Waiters, short.Holds}, []int{result.Waiters, result.Holds})
	require.Greater(t, result.Numbers.Grants, short.Holds*4)
	require.NotEmpty(t, result.EndedSessions, "sessions were ended by the operator")
	require.Positive(t, result.Numbers.Ends[history.GivenUp])
	require.Positive(t, result.Writes.All)
	require.Len(t, result.Acquired, 4, "every path can be had in the end")
	injected := 0
	for kind, n := range result.Faults {
		injected += n.Injected
		if n.Injected == 0 {
			t.Logf("%s was attempted %d times and never injected: its target may be missing", kind, n.Missed)
		}
	}
	require.Greater(t, injected, strings.Count(shortPlan, "\nat ")/3, "also where servers are slow, because other tests run")

	require.Empty(t, slices.DeleteFunc(slices.Clone(result.Findings), func(f verdict.Finding) bool { return f.Rule == check.HolderInTime }),
		"the rules that are no promise of a library, too, found nothing")
	// The document has a few findings of a rule, and the number of the others as a problem.
	_, unreported, _ := strings.Cut(verdict.Unreported(0, check.HolderInTime), "0")
	require.Empty(t, slices.DeleteFunc(slices.Clone(result.Problems), func(text string) bool { return strings.HasSuffix(text, unreported) }))

	// The kept files give the same result again.
	before, err := kept(dir)
	require.NoError(t, err)
	var again bytes.Buffer
	require.Equal(t, result.Verdict == verdict.Broken, run([]string{"-judge", dir}, &again, t.Output()) == broken)
	require.Contains(t, again.String(), result.Verdict)
	after, err := kept(dir)
	require.NoError(t, err)
	require.Equal(t, inWords(before.History), inWords(after.History), "read again, the servers' logs tell of the same order")
	require.Equal(t, result.Numbers, after.Numbers)
	require.Equal(t, result.Promises, after.Promises)
	require.Equal(t, result.Findings, after.Findings)
	require.Equal(t, result.Problems, after.Problems)
}

// inWords returns events as text, in a fixed order where they have one instant.
func inWords(events []history.Event) (words []string) {
	for _, e := range events {
		e.Line = 0
		words = append(words, e.At.String()+" "+e.String())
	}
	slices.Sort(words)
	return words
}

// requireEmpty fails the test if a folder is not empty.
func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "what is temporary was left")
}
