// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// take takes a lock until the end of the test.
func take(t *testing.T, client *recipes.Client, path string) *lock.Hold {
	t.Helper()
	mu, err := lock.New(client, path, nil)
	require.NoError(t, err)
	held, err := mu.Lock(t.Context())
	require.NoError(t, err)
	return held
}

// enqueue adds a waiter to the queue of a lock until the end of the test.
func enqueue(t *testing.T, client *recipes.Client, path string) {
	t.Helper()
	mu, err := lock.New(client, path, nil)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := mu.Lock(t.Context())
		ended <- err
	}()
	t.Cleanup(func() { require.Error(t, <-ended) })
}

// createForeign creates a contender as another library does.
func createForeign(t *testing.T, client *recipes.Client, path, name, data string) {
	t.Helper()
	_, err := client.Conn().Create(path+"/"+name, []byte(data), zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestLsListsHoldersAndCountsWaiters(t *testing.T) {
	ensemble := startServers(t, nil)
	a, b := clientOf(t, ensemble, "a"), clientOf(t, ensemble, "b")
	ledger := take(t, a, "/locks/ledger")
	enqueue(t, b, "/locks/ledger")
	requireContenders(t, ensemble, "/locks/ledger", 2)
	take(t, b, "/locks/ledger/part")
	take(t, b, "/other")
	require.NoError(t, ensemble.Create("/locks/free", nil))

	status, stdout, stderr := runInProcess(t, ensemble, "ls", "/locks", "--json")
	require.Equal(t, statusOK, status, stderr)
	var rows []struct {
		Path    string
		Waiters int
		Holder  struct {
			Owner, Host, Kind string
			Token             fencing.Token
			Since             time.Time
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &rows))
	require.Len(t, rows, 2)
	require.Equal(t, "/locks/ledger", rows[0].Path)
	require.Equal(t, 1, rows[0].Waiters)
	require.Equal(t, "a", rows[0].Holder.Owner)
	require.Equal(t, "lockkeeper", rows[0].Holder.Kind)
	require.Equal(t, ledger.Token(), rows[0].Holder.Token)
	require.WithinDuration(t, time.Now(), rows[0].Holder.Since, time.Minute)
	require.Equal(t, "/locks/ledger/part", rows[1].Path)
	require.Equal(t, "b", rows[1].Holder.Owner)

	status, stdout, stderr = runInProcess(t, ensemble, "ls")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `^PATH +HOLDER +WAITERS +SINCE +TOKEN +KIND\n/locks/ledger +a +1 .*\n/locks/ledger/part .*\n/other +b +0 .*\n$`, stdout)

	status, stdout, stderr = runInProcess(t, ensemble, "ls", "--namespace", "/locks")
	require.Equal(t, statusOK, status, stderr)
	require.Contains(t, stdout, "\n/ledger ")
	require.NotContains(t, stdout, "other")
}

func TestLsOfNothingPrintsNoRow(t *testing.T) {
	ensemble := startServers(t, nil)
	status, stdout, _ := runInProcess(t, ensemble, "ls", "--json")
	require.Equal(t, statusOK, status)
	require.Equal(t, "[]\n", stdout)
	status, stdout, _ = runInProcess(t, ensemble, "ls")
	require.Equal(t, statusOK, status)
	require.Empty(t, stdout)
	for _, command := range []string{"ls", "doctor"} {
		status, stdout, stderr := runInProcess(t, ensemble, command, "missing")
		require.Equal(t, statusUsage, status, stderr)
		require.Empty(t, stdout)
	}
}

func TestPrefixThatDoesNotExistIsEmpty(t *testing.T) {
	ensemble := startServers(t, nil)
	for _, args := range [][]string{{"/missing"}, {"/missing/below"}, {"--namespace", "/missing"}, {"--namespace", "/missing", "/below"}} {
		status, stdout, stderr := runInProcess(t, ensemble, append([]string{"ls"}, args...)...)
		require.Equal(t, statusOK, status, args)
		require.Empty(t, stdout+stderr, args)
		status, stdout, stderr = runInProcess(t, ensemble, append([]string{"ls", "--json"}, args...)...)
		require.Equal(t, statusOK, status, args)
		require.Equal(t, "[]\n", stdout, args)
		require.Empty(t, stderr, args)
		status, stdout, stderr = runInProcess(t, ensemble, append([]string{"doctor"}, args...)...)
		require.Equal(t, statusOK, status, args)
		require.Contains(t, stdout, "\n0 nodes, 0 queues with contenders\nno problems\n", args)
		require.Empty(t, stderr, args)
	}
}

func TestLsListsWhatItMayAndReportsTheRest(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	take(t, client, "/ledger")
	_, err := client.Conn().Create("/secret", nil, 0, zk.DigestACL(zk.PermAll, "user", "password"))
	require.NoError(t, err)
	status, stdout, stderr := runInProcess(t, ensemble, "ls")
	require.Equal(t, statusFailed, status)
	require.Contains(t, stdout, "/ledger")
	require.Equal(t, "lockkeeper: ls: list /secret: zk: not authenticated\n", stderr)
}

func TestLsListsTheOtherQueuesIfSomeCannotBeRead(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	take(t, client, "/ledger")
	require.NoError(t, ensemble.Create("/secret", nil))
	_, err := client.Conn().Create("/secret/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.DigestACL(zk.PermAll, "user", "password"))
	require.NoError(t, err)
	require.NoError(t, ensemble.Create("/clock-1700000000", nil)) // the name of a contender, at the root
	for _, args := range [][]string{{"ls"}, {"ls", "--json"}} {
		status, stdout, stderr := runInProcess(t, ensemble, args...)
		require.Equal(t, statusFailed, status)
		require.Contains(t, stdout, "/ledger")
		require.NotContains(t, stdout, "/secret")
		require.Equal(t, "lockkeeper: ls: read /: its child \"clock-1700000000\" has the name of a contender, and no lock has the path \"/\"\n"+
			"read /secret/lock-0000000000: zk: not authenticated\n", stderr)
	}
}

func TestLsPrintsWholePaths(t *testing.T) {
	ensemble := startServers(t, nil)
	path := "/" + strings.Repeat("p", 99)
	take(t, clientOf(t, ensemble, "a"), path)
	status, stdout, stderr := runInProcess(t, ensemble, "ls")
	require.Equal(t, statusOK, status, stderr)
	require.Contains(t, stdout, "\n"+path+" ")
}

func TestShowPrintsQueueInOrder(t *testing.T) {
	ensemble := startServers(t, nil)
	a, b := clientOf(t, ensemble, "a"), clientOf(t, ensemble, "b")
	take(t, a, "/ledger")
	enqueue(t, b, "/ledger")
	requireContenders(t, ensemble, "/ledger", 2)
	createForeign(t, a, "/ledger", "9f__lock__", "worker\x1b[2J of kazoo")

	status, stdout, stderr := runInProcess(t, ensemble, "show", "/ledger", "--json")
	require.Equal(t, statusOK, status, stderr)
	var shown struct {
		Path   string
		Holder struct {
			Owner, Kind, Node, Session string
			PID                        int
		}
		Waiters int
		Queue   []struct {
			Owner, Kind string
			Token       fencing.Token
		}
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &shown))
	require.Equal(t, "/ledger", shown.Path)
	require.Equal(t, "a", shown.Holder.Owner)
	require.Equal(t, hexID(a.SessionID()), shown.Holder.Session)
	require.NotZero(t, shown.Holder.PID)
	require.Equal(t, 2, shown.Waiters)
	require.Len(t, shown.Queue, 2)
	require.Equal(t, "b", shown.Queue[0].Owner)
	require.Equal(t, "kazoo", shown.Queue[1].Kind)
	require.Less(t, shown.Queue[0].Token, shown.Queue[1].Token)

	status, stdout, stderr = runInProcess(t, ensemble, "show", "/ledger")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `(?m)^holder +a .* lockkeeper +0x`, stdout)
	require.Regexp(t, `(?m)^waiter 1 +b `, stdout)
	require.Regexp(t, `(?m)^waiter 2 +worker\.\[2J of kazoo +- +- +- `, stdout)

	status, stdout, _ = runInProcess(t, ensemble, "show", "/free")
	require.Equal(t, statusOK, status)
	require.Equal(t, "/free is free\n", stdout)
}

func TestWatchPrintsLineForEachChangeUntilInterrupted(t *testing.T) {
	t.Parallel()
	ensemble := startServers(t, nil)
	p := startProcess(t, ensemble, "watch", "/ledger")
	p.awaitOutput("/ledger  free\n")
	a := take(t, clientOf(t, ensemble, "a"), "/ledger")
	p.awaitOutput("held by a, token " + a.Token().String() + ", kind lockkeeper")
	require.NoError(t, a.Unlock(t.Context()))
	require.Eventually(t, func() bool { return strings.Count(p.stdout.String(), "free\n") == 2 }, time.Minute, 5*time.Millisecond)
	b := take(t, clientOf(t, ensemble, "b"), "/ledger")
	p.awaitOutput("held by b, token " + b.Token().String())
	require.NoError(t, p.cmd.Process.Signal(endSignals()[0]))
	require.Equal(t, statusOK, p.status())
	require.Equal(t, 4, strings.Count(p.stdout.String(), "\n"))
	require.Empty(t, p.stderr.String())
}

func TestReadersThatHoldTogetherAreNoWaiters(t *testing.T) {
	state := stateOf("/l", []recipes.Contender{
		{Name: "a", Shared: true}, {Name: "b", Shared: true}, {Name: "writer"}, {Name: "late", Shared: true},
	})
	require.Equal(t, "a", state.Holder.Node)
	require.Len(t, state.Readers, 1)
	require.Equal(t, "b", state.Readers[0].Node)
	require.Len(t, state.Queue, 2)
	require.Equal(t, 2, state.Waiters)
	var out strings.Builder
	require.NoError(t, state.print(&out))
	require.Regexp(t, `(?s)\nholder .*\nreader .*\nwaiter 1 .*\nwaiter 2 `, out.String())
}

func TestHoldersOfPermitsAreNoWaiters(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	uploads, err := lock.NewSemaphore(client, "/uploads", 3, nil)
	require.NoError(t, err)
	for range 2 {
		_, err := uploads.Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := uploads.Acquire(t.Context(), 2)
		ended <- err
	}()
	t.Cleanup(func() { require.Error(t, <-ended) })
	requireContenders(t, ensemble, "/uploads", 3)
	status, stdout, stderr := runInProcess(t, ensemble, "show", "/uploads")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `(?s)\nholder .*\nholder .*\nwaiter 1 `, stdout)
	status, stdout, stderr = runInProcess(t, ensemble, "ls")
	require.Equal(t, statusOK, status, stderr)
	require.Regexp(t, `\n/uploads +a +1 `, stdout, "of three contenders one waits")
}

func TestKindIsThatOfProgramThatCreatedNode(t *testing.T) {
	for name, want := range map[string]string{
		"_c_3d2cbd7c-8b8c-4ffa-a0a4-d1bb8e3a2c3e-lock-0000000001":    "curator",
		"_c_3d2cbd7c8b8c4ffaa0a4d1bb8e3a2c3e-lock-0000000001":        "go-zookeeper",
		"3d2cbd7c8b8c4ffaa0a4d1bb8e3a2c3e__lock__0000000001":         "kazoo",
		"read-lock-0000000001":                                       "unknown",
		"_c_3d2cbd7c-8b8c-4ffa-a0a4-d1bb8e3a2c3e-__READ__0000000001": "curator",
	} {
		require.True(t, isContender(name), name)
		require.Equal(t, want, kindOf(recipes.Contender{Name: name}), name)
	}
	for _, name := range []string{"lock-", "lock-1", "lock-00000000001", "note", "lock-000000000x", ""} {
		require.False(t, isContender(name), name)
	}
	require.True(t, isContender("2-lock--2147483647"), "the counter has overflowed")
}
