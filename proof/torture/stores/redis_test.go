// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// ask sends one command to a Redis on its own connection, and returns the first line of the answer.
func ask(s *stores.Server, command string, patience time.Duration) (string, error) {
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(conn, command+"\r\n"); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// says requires an answer to a command.
func says(t *testing.T, s *stores.Server, command, want string) {
	t.Helper()
	answer, err := ask(s, command, 10*time.Second)
	require.NoError(t, err)
	require.Equal(t, want, answer)
}

func TestRedisKeepsWhatItAnsweredWhenItIsKilled(t *testing.T) {
	s := stores.Redis(t, nil)
	for i := range 3 {
		says(t, s, "INCR grants", fmt.Sprintf(":%d", i+1))
		require.NoError(t, s.Kill(t.Context()))
		_, err := ask(s, "PING", 10*time.Second)
		require.Error(t, err)
		require.NoError(t, s.Start(t.Context()))
	}
	says(t, s, "INCR grants", ":4")
	require.NoError(t, s.Start(t.Context()), "it is running")
	says(t, s, "INCR grants", ":5")
}

func TestPausedServerAnswersLater(t *testing.T) {
	s := stores.Redis(t, nil)
	require.NoError(t, s.Pause())
	_, err := ask(s, "PING", 100*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, s.Unpause())
	says(t, s, "PING", "+PONG")
	require.NoError(t, s.Pause())
	require.NoError(t, s.Kill(t.Context()), "paused or not")
}

func TestArgumentsOfTheCallerOverrideDefaults(t *testing.T) {
	s := stores.Redis(t, &stores.Options{Args: []string{"--appendonly", "no"}})
	says(t, s, "INCR grants", ":1")
	require.NoError(t, s.Kill(t.Context()))
	require.NoError(t, s.Start(t.Context()))
	says(t, s, "INCR grants", ":1")
}

func TestServerThatCannotStartShowsItsLogAndLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", open(t))
	_, err := stores.RunRedis(t.Context(), &stores.Options{Args: []string{"--appendonly", "perhaps"}})
	if errors.Is(err, stores.ErrNotInstalled) {
		stores.Redis(t, nil) // skips or fails the test
	}
	require.ErrorContains(t, err, "start redis on 127.0.0.1:")
	require.ErrorContains(t, err, "argument must be 'yes' or 'no'")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestClosedServerIsGone(t *testing.T) {
	t.Setenv("TMPDIR", open(t))
	s := stores.Redis(t, nil)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err := ask(s, "PING", 10*time.Second)
	require.Error(t, err)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// open returns a temporary folder that other users may enter, as servers must that run as another user.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lockkeeper-test-") //nolint:usetesting // other users cannot enter t.TempDir
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return dir
}

func TestMissingServerFailsInCIAndSkipsElsewhere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := stores.RunRedis(t.Context(), nil); !errors.Is(err, stores.ErrNotInstalled) {
		t.Skipf("not run: a Redis is installed outside PATH: %v", err)
	}
	for _, c := range []struct{ ci, want string }{
		{"", "skipped"}, {"false", "skipped"}, {"0", "skipped"}, {"true", "failed"}, {"1", "failed"},
	} {
		t.Setenv("CI", c.ci)
		v := &verdict{TB: t}
		var test sync.WaitGroup
		test.Go(func() { stores.Redis(v, nil) })
		test.Wait()
		require.Equal(t, c.want, v.what, "CI=%q", c.ci)
	}
}

// A verdict is a testing.TB that records how it was ended.
type verdict struct {
	testing.TB
	what string
}

func (v *verdict) Skipf(string, ...any)  { v.end("skipped") }
func (v *verdict) Fatalf(string, ...any) { v.end("failed") }

func (v *verdict) end(how string) {
	v.what = how
	runtime.Goexit()
}
