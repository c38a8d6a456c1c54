// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestLockFileRemovedUnderHolderAdmitsNoOtherWriter(t *testing.T) {
	dir := t.TempDir()
	holder, other := openGuarded(t, dir), openGuarded(t, dir)
	lockFile := holder.guard.record("ledger").lockFile
	called := false
	err := holder.guard.Do(t.Context(), "ledger", 7, func(*os.File) error {
		require.NoError(t, os.Remove(lockFile))
		err := other.guard.Do(t.Context(), "ledger", 8, func(*os.File) error { called = true; return nil })
		require.ErrorIs(t, err, ErrReplaced)
		require.ErrorContains(t, err, lockFile, "the operator must be able to find the file")
		require.ErrorContains(t, err, "Reset")
		return nil
	})
	require.False(t, called, "two functions of one resource at the same time")
	require.ErrorIs(t, err, ErrReplaced, "the holder is notified, too")
	require.ErrorContains(t, err, "the function has run")

	require.NoError(t, holder.guard.Reset(t.Context(), "ledger", 7))
	require.ErrorIs(t, other.Write(t.Context(), "ledger", 6, "stale"), fencing.ErrStale)
	require.NoError(t, other.Write(t.Context(), "ledger", 8, "eight"))
}

// The resource has no token yet when its lock file is removed, so only the first of the two writers can detect it.
func TestLockFileRemovedBeforeFirstTokenAdmitsOneWriter(t *testing.T) {
	dir := t.TempDir()
	g := openGuarded(t, dir)
	r := g.guard.record("ledger")
	first, err := r.tryLock(withoutToken)
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()
	require.NoError(t, os.Remove(r.lockFile))
	require.NoError(t, g.Write(t.Context(), "ledger", 8, "eight"))
	require.ErrorIs(t, r.same(first), ErrReplaced, "Do does not call its function")
}

func TestRemovedTokenFileRefusesAllTokensUntilReset(t *testing.T) {
	dir := t.TempDir()
	g := openGuarded(t, dir)
	require.NoError(t, g.Write(t.Context(), "ledger", 9, "nine"))
	r := g.guard.record("ledger")
	require.NoError(t, os.Remove(r.file))
	for _, g := range []*guarded{g, openGuarded(t, dir)} {
		for _, token := range []fencing.Token{7, 9, 10} {
			err := g.Write(t.Context(), "ledger", token, "unwanted")
			require.ErrorIs(t, err, ErrDamaged)
			require.ErrorContains(t, err, r.file+": removed", "the operator must be able to find the file")
			require.ErrorContains(t, err, "Reset")
		}
		_, err := g.guard.Newest(t.Context(), "ledger")
		require.ErrorIs(t, err, ErrDamaged)
	}
	require.NoError(t, g.Write(t.Context(), "other", 1, "not removed"))
	require.NoError(t, g.guard.Reset(t.Context(), "ledger", 9))
	require.ErrorIs(t, g.Write(t.Context(), "ledger", 8, "stale"), fencing.ErrStale)
	require.NoError(t, g.Write(t.Context(), "ledger", 9, "nine"))
}

// A process that dies between any two steps of the first call leaves a resource that the next call can write.
func TestDeathBeforeFirstTokenLeavesResourceUsable(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	steps := len(g.guard.record("ledger").steps(state{}))
	for done := range steps + 1 {
		resource := "ledger " + strconv.Itoa(done)
		r := g.guard.record(resource)
		for _, step := range r.steps(state{})[:done] {
			require.NoError(t, step())
		}
		newest, err := g.guard.Newest(t.Context(), resource)
		require.NoError(t, err)
		require.Zero(t, newest)
		require.NoError(t, g.Write(t.Context(), resource, 7, "seven"))
		require.ErrorIs(t, g.Write(t.Context(), resource, 6, "stale"), fencing.ErrStale)
	}
}

// A process that dies between any two steps of the creation of a lock file leaves at most one file to lock.
func TestDeathDuringCreationOfLockFileLeavesOneLock(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	for done := range len(g.guard.record("ledger").lockSteps()) + 1 {
		resource := "ledger " + strconv.Itoa(done)
		r := g.guard.record(resource)
		require.NoError(t, r.store(state{}))
		for _, step := range r.lockSteps()[:done] {
			require.NoError(t, step())
		}
		held, err := r.tryLock(withoutToken)
		require.NoError(t, err)
		_, err = r.tryLock(withoutToken)
		require.ErrorIs(t, err, syscall.EWOULDBLOCK)
		require.NoError(t, held.Close())
		require.NoError(t, g.Write(t.Context(), resource, 7, "seven"))
		require.ErrorIs(t, g.Write(t.Context(), resource, 6, "stale"), fencing.ErrStale)
	}
}

func TestCreationOfLockFileReplacesNoLockFile(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	r := g.guard.record("ledger")
	held, err := r.tryLock(withoutToken)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	var last error
	for _, step := range r.lockSteps() {
		if last = step(); last != nil {
			break
		}
	}
	require.ErrorIs(t, last, fs.ErrExist)
	require.NoError(t, r.same(held), "another process may hold its lock")
}

func TestLockFileReplacedBetweenOpenAndLockIsReported(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, g.Write(t.Context(), "ledger", 7, "seven"))
	r := g.guard.record("ledger")
	held, err := r.tryLock(withoutToken)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	require.NoError(t, r.same(held))
	require.NoError(t, os.Rename(r.lockFile, r.lockFile+".old"))
	require.NoError(t, os.WriteFile(r.lockFile, nil, 0o600))
	require.ErrorIs(t, r.same(held), ErrReplaced)
}

func TestSwitchedDirectoryIsReported(t *testing.T) {
	dir := t.TempDir()
	before, after, link := filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "fence")
	require.NoError(t, os.Mkdir(before, 0o700))
	require.NoError(t, os.Mkdir(after, 0o700))
	require.NoError(t, os.Symlink(before, link))
	guard, err := New(link, nil)
	require.NoError(t, err)
	called := false
	do := func(token fencing.Token) error {
		return guard.Do(t.Context(), "ledger", token, func(*os.File) error { called = true; return nil })
	}
	require.NoError(t, do(9))

	switchTo := func(target string) {
		require.NoError(t, os.Symlink(target, link+".new"))
		require.NoError(t, os.Rename(link+".new", link))
	}
	called = false
	switchTo(after)
	err = do(8)
	require.False(t, called, "older than 9")
	require.ErrorIs(t, err, ErrReplaced)
	require.ErrorContains(t, err, link)
	require.ErrorIs(t, guard.Reset(t.Context(), "ledger", 1), ErrReplaced)
	_, err = guard.Newest(t.Context(), "ledger")
	require.ErrorIs(t, err, ErrReplaced)
	left, err := os.ReadDir(after)
	require.NoError(t, err)
	require.Empty(t, left)

	switchTo(before)
	require.ErrorIs(t, do(8), fencing.ErrStale)
	err = guard.Do(t.Context(), "ledger", 9, func(*os.File) error { switchTo(after); return nil })
	require.ErrorIs(t, err, ErrReplaced, "other processes write in the new directory")
	require.ErrorContains(t, err, "the function has run")
}

func TestFunctionThatClosesLockFileIsReported(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	err := g.guard.Do(t.Context(), "ledger", 7, (*os.File).Close)
	require.ErrorIs(t, err, os.ErrClosed)
	require.ErrorContains(t, err, "the function must not close the lock file")
}

func TestCancelledContextLeavesLockFree(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	r := g.guard.record("ledger")
	done, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.lock(done, withoutToken)
	require.ErrorIs(t, err, context.Canceled)
	file, err := r.tryLock(withoutToken)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}
