// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
)

// guarded stores each value in a file beside the guard's directory.
type guarded struct {
	guard *Guard
	data  string
}

func openGuarded(t *testing.T, dir string) *guarded {
	t.Helper()
	g, err := newGuarded(dir, nil)
	require.NoError(t, err)
	return g
}

func newGuarded(dir string, opts *Options) (*guarded, error) {
	state, data := filepath.Join(dir, "fence"), filepath.Join(dir, "data")
	if err := errors.Join(os.MkdirAll(state, 0o700), os.MkdirAll(data, 0o700)); err != nil {
		return nil, err
	}
	guard, err := New(state, opts)
	return &guarded{guard: guard, data: data}, err
}

func (g *guarded) file(resource string) string {
	return filepath.Join(g.data, filepath.Base(g.guard.record(resource).file))
}

func (g *guarded) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return g.guard.Do(ctx, resource, token, func(*os.File) error {
		name := g.file(resource)
		if err := os.WriteFile(name+".new", []byte(value), 0o600); err != nil {
			return err
		}
		return os.Rename(name+".new", name)
	})
}

func (g *guarded) Value(ctx context.Context, resource string) (string, error) {
	if _, err := g.guard.Newest(ctx, resource); err != nil {
		return "", err
	}
	value, err := os.ReadFile(g.file(resource))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(value), err
}

func (g *guarded) Reset(ctx context.Context, resource string) error {
	return g.guard.Reset(ctx, resource, 0)
}

func TestFencePassesSuite(t *testing.T) {
	fencetest.Run(t, func(t *testing.T) fencetest.Subject {
		t.Helper()
		dir := t.TempDir()
		return fencetest.Subject{
			Open: func(t *testing.T) fencetest.Guarded {
				t.Helper()
				return openGuarded(t, dir)
			},
			OpenHistory: func(t *testing.T, history string) fencetest.Guarded {
				t.Helper()
				return inHistory(t, dir, history)
			},
			Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
				t.Helper()
				task{Role: dieInTheFunction, Dir: dir, Resource: resource, Token: token, Value: value}.dies(t)
			},
		}
	})
}

func TestTokenIsDurableBeforeFunctionRuns(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, g.guard.Do(t.Context(), "ledger", 7, func(*os.File) error {
		newest, err := g.guard.Newest(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, fencing.Token(7), newest)
		return nil
	}))
}

func TestFailedFunctionLeavesTokenAdmittedAndLockFree(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	disk := errors.New("disk full")
	require.ErrorIs(t, g.guard.Do(t.Context(), "ledger", 7, func(*os.File) error { return disk }), disk)
	require.Panics(t, func() {
		_ = g.guard.Do(t.Context(), "ledger", 8, func(*os.File) error { panic("in the function") })
	})
	require.ErrorIs(t, g.Write(t.Context(), "ledger", 7, "stale"), fencing.ErrStale)
	require.NoError(t, g.Write(t.Context(), "ledger", 8, "eight"))
}

func TestWaiterReturnsWhenContextIsDone(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	reason := errors.New("lost the lock")
	require.NoError(t, g.guard.Do(t.Context(), "ledger", 7, func(*os.File) error {
		// ctx is done in the end, whether the call has begun to wait or not.
		waited := make(chan error)
		go func() { waited <- g.Write(ctx, "ledger", 9, "nine") }()
		cancel(reason)
		require.ErrorIs(t, <-waited, reason)
		return nil
	}))
	newest, err := g.guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, fencing.Token(7), newest)
}

func TestDamagedFileRefusesAllTokensUntilReset(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, g.Write(t.Context(), "ledger", 11, "eleven"))
	r := g.guard.record("ledger")
	whole := r.encode(state{newest: 12})
	damaged := []string{"", r.encode(state{newest: 13})[:len(whole)-70] + whole[len(whole)-70:], whole + "\n", g.guard.record("other").encode(state{newest: 12})}
	for n := range len(whole) {
		damaged = append(damaged, whole[:n])
	}
	for _, content := range damaged {
		require.NoError(t, os.WriteFile(r.file, []byte(content), 0o600))
		_, err := g.guard.Newest(t.Context(), "ledger")
		require.ErrorIs(t, err, ErrDamaged, "%q", content)
		err = g.Write(t.Context(), "ledger", math.MaxInt64, "unwanted")
		require.ErrorIs(t, err, ErrDamaged, "%q", content)
		require.ErrorContains(t, err, r.file, "the operator must be able to find the file")
		require.ErrorContains(t, err, "Reset")
		after, err := os.ReadFile(r.file)
		require.NoError(t, err)
		require.Equal(t, content, string(after), "the damaged file is left as evidence")
	}
	require.NoError(t, g.guard.Reset(t.Context(), "ledger", 12))
	require.ErrorIs(t, g.Write(t.Context(), "ledger", 11, "stale"), fencing.ErrStale)
	require.NoError(t, g.Write(t.Context(), "ledger", 12, "twelve"))
}

func TestMisuseIsReported(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.ErrorContains(t, g.guard.Do(t.Context(), "ledger", 7, nil), "the function is nil")
	require.ErrorIs(t, g.guard.Reset(t.Context(), "ledger", -1), fencing.ErrInvalid)
	newest, err := g.guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.Zero(t, newest)

	_, err = New("", nil)
	require.ErrorContains(t, err, "is empty", "the working directory is no substitute")
	_, err = New(filepath.Join(t.TempDir(), "missing"), nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = New(file, nil)
	require.ErrorContains(t, err, "not a directory")
}

func TestMissingDirectoryIsReported(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, os.RemoveAll(g.guard.dir))
	called := false
	require.ErrorIs(t, g.guard.Do(t.Context(), "ledger", 7, func(*os.File) error { called = true; return nil }), fs.ErrNotExist)
	require.False(t, called)
}

func TestFileNamesItsResource(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, g.Write(t.Context(), "ledger/2026", 4294967311, "value"))
	content, err := os.ReadFile(g.guard.record("ledger/2026").file)
	require.NoError(t, err)
	require.Contains(t, string(content), "token "+strconv.Itoa(4294967311)+"\n")
	require.Contains(t, string(content), strconv.Quote("ledger/2026"))
	require.Equal(t, 4, strings.Count(string(content), "\n"))
}

// The other call created the lock file and stored its token after this call had found no lock file.
func TestConcurrentFirstCallsReportNoReplacedFence(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, g.Write(t.Context(), "ledger", 7, "seven"))
	r := g.guard.record("ledger")
	file, err := r.create(withoutToken)
	require.NoError(t, err)
	require.NoError(t, r.same(file))
	require.NoError(t, file.Close())

	require.NoError(t, os.Remove(r.lockFile))
	_, err = r.create(withoutToken)
	require.ErrorIs(t, err, ErrReplaced)
}
