// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/recipetest"
)

func TestOperatorSeesQueueOfRealEnsembleAndTakesTheLock(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	path := s.Path("ledger")
	watched := s.launch(s.on("watch", path, "--json")...)
	s.line(watched, `{`)
	holder := s.launch(s.on("run", "--lock", path, "--owner", "db7", "--", "sh", "-c", "echo holds; exec sleep 60")...)
	s.line(holder, "holds")
	seen := filepath.Join(s.T.TempDir(), "seen") // the watch shows the newest state, and not one that has passed already
	waiter := s.launch(s.on("run", "--lock", path, "--owner", "db8", "--", "sh", "-c",
		`echo runs next; until [ -e "$0" ]; do sleep 0.05; done`, seen)...)
	s.Waiting("ledger", 2)

	var rows []struct {
		Path    string
		Waiters int
		Holder  shownContender
	}
	s.readJSON(&rows, "ls", s.Root)
	require.Len(t, rows, 1)
	require.Equal(t, path, rows[0].Path)
	require.Equal(t, 1, rows[0].Waiters)
	var queue shown
	s.readJSON(&queue, "show", path)
	require.Equal(t, rows[0].Holder, *queue.Holder)
	require.Equal(t, "db7", queue.Holder.Owner)
	require.Equal(t, "lockkeeper", queue.Holder.Kind)
	require.Equal(t, 10.0, queue.Holder.TTLSeconds)
	require.Len(t, queue.Queue, 1)
	require.Equal(t, "db8", queue.Queue[0].Owner)

	out, err := s.lockkeeper(s.on("release", path, "--token", queue.Queue[0].Token.String(), "--reason", "wrong", "--force")...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is not in front")
	out, err = s.lockkeeper(s.on("release", path, "--token", queue.Holder.Token.String(), "--reason", "db7 hangs", "--force")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), `owner "db7", reason "db7 hangs"`)
	s.line(waiter, "runs next")
	s.Eventually("the watch shows the next holder", func() bool { return strings.Contains(watched.Output(), "db8") })
	require.NoError(t, os.WriteFile(seen, nil, 0o600))
	require.Equal(t, 0, s.status(waiter))
	require.Equal(t, 75, s.status(holder))
	require.Contains(t, holder.Output(), "node deleted or overwritten by another client")

	s.Eventually("the watch shows the end", func() bool {
		return strings.HasSuffix(watched.Output(), `"holder":null}`+"\n")
	})
	s.interrupt(watched)
	require.Equal(t, 0, s.status(watched))
	var owners []string
	for row := range strings.Lines(watched.Output()) {
		var change struct {
			Time   time.Time
			Path   string
			Holder *shownContender
		}
		require.NoError(t, json.Unmarshal([]byte(row), &change))
		require.Equal(t, path, change.Path)
		require.WithinDuration(t, time.Now(), change.Time, recipetest.Patience)
		if change.Holder != nil {
			owners = append(owners, change.Holder.Owner)
		}
	}
	require.Equal(t, []string{"db7", "db8"}, owners)
}

func TestOperatorSeesLeaseOfTheService(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	locks := s.service()
	p := s.launch(append(append([]string{"run"}, locks.start().access()...), "--owner", "db7", "--lock", "team/orders", "--", "sh", "-c", "echo holds; read line")...)
	s.line(p, "holds")
	var queue shown
	s.readJSON(&queue, "show", s.Path(orders))
	require.Equal(t, "db7", queue.Holder.Owner)
	require.Equal(t, "lease", queue.Holder.Kind)
	require.Empty(t, queue.Holder.Session)
	require.Equal(t, 30.0, queue.Holder.TTLSeconds)
	require.WithinDuration(t, time.Now().Add(30*time.Second), queue.Holder.Expires, 15*time.Second)
	require.NoError(t, p.Send("go on"))
	require.Equal(t, 0, s.status(p))
}

func TestDoctorFindsNothingWrongWithRealEnsemble(t *testing.T) {
	t.Parallel()
	s := withCommand(t)
	p := s.launch(s.on("run", "--lock", s.Path("ledger"), "--", "sh", "-c", "echo holds; read line")...)
	s.line(p, "holds")
	var diagnosis struct {
		Servers []struct {
			Mode                               string
			TickSeconds, SessionTimeoutSeconds float64
		}
		Queues   int
		Findings []any
		Notes    []string
	}
	s.readJSON(&diagnosis, "doctor", s.Root)
	require.Len(t, diagnosis.Servers, 3)
	modes := map[string]int{}
	for _, server := range diagnosis.Servers {
		modes[server.Mode]++
		require.Equal(t, 0.2, server.TickSeconds)
		require.Equal(t, 10.0, server.SessionTimeoutSeconds)
	}
	require.Equal(t, map[string]int{"leader": 1, "follower": 2}, modes)
	require.Equal(t, 1, diagnosis.Queues)
	require.Empty(t, diagnosis.Findings)
	require.Empty(t, diagnosis.Notes)
	require.NoError(t, p.Send("go on"))
	require.Equal(t, 0, s.status(p))
}
