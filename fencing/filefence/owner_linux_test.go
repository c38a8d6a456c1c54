// SPDX-License-Identifier: Apache-2.0

package filefence

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// service is the user of the service.
const service = 65534

// guardOfService returns a guard whose directory the service owns. It lasts until the test ends.
func guardOfService(t *testing.T) *Guard {
	t.Helper()
	dir, err := os.MkdirTemp("", "filefence-") //nolint:usetesting // t.TempDir is in a directory that other users cannot enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	stateDir := filepath.Join(dir, "fence")
	require.NoError(t, os.Mkdir(stateDir, 0o700))
	require.NoError(t, os.Chown(stateDir, service, service))
	guard, err := New(stateDir, nil)
	require.NoError(t, err)
	return guard
}

// An administrator runs the command of the service as root once, with a umask that makes files private, and it dies while it
// runs.
func TestServiceCanWriteAfterFilesOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		need.Lacking(t, "only root can write as root")
	}
	guard := guardOfService(t)
	nothing := func(*os.File) error { return nil }

	mask := syscall.Umask(0o077)
	err := guard.Do(t.Context(), "ledger", 7, nothing)
	r := guard.record("ledger")
	for _, step := range r.steps(state{newest: 9})[:2] {
		require.NoError(t, step())
	}
	syscall.Umask(mask)
	require.NoError(t, err)

	errs := asUser(service, func() []error {
		return []error{
			guard.Do(t.Context(), "ledger", 8, nothing),
			guard.Do(t.Context(), "ledger", 7, nothing),
			guard.Reset(t.Context(), "ledger", 3),
			guard.Do(t.Context(), "ledger", 4, nothing),
		}
	})
	require.NoError(t, errs[0], "the service is newer")
	require.ErrorIs(t, errs[1], fencing.ErrStale)
	require.NoError(t, errs[2])
	require.NoError(t, errs[3])
	require.NoError(t, guard.Do(t.Context(), "ledger", 5, nothing), "and root can write after the service")
}

// The command dies while it creates the lock file: between two steps, or within the one that creates a temporary file.
func TestServiceCanWriteAfterDeathOfRootDuringCreationOfLockFile(t *testing.T) {
	if os.Getuid() != 0 {
		need.Lacking(t, "only root can write as root")
	}
	guard := guardOfService(t)
	private := func(f func() error) {
		t.Helper()
		mask := syscall.Umask(0o077)
		err := f()
		syscall.Umask(mask)
		require.NoError(t, err)
	}
	usable := func(resource string) {
		t.Helper()
		errs := asUser(service, func() []error {
			nothing := func(*os.File) error { return nil }
			return []error{guard.Do(t.Context(), resource, 7, nothing), guard.Do(t.Context(), resource, 6, nothing)}
		})
		require.NoError(t, errs[0], resource)
		require.ErrorIs(t, errs[1], fencing.ErrStale)
	}
	for done := range len(guard.record("ledger").lockSteps()) + 1 {
		resource := "ledger " + strconv.Itoa(done)
		r := guard.record(resource)
		private(func() error { return r.store(state{}) })
		for _, step := range r.lockSteps()[:done] {
			private(step)
		}
		usable(resource)
	}
	r := guard.record("torn")
	private(func() error { return r.store(state{}) })
	private(func() error { return os.WriteFile(r.lockTemp, nil, mode) })
	usable("torn")
	_, err := os.Stat(r.lockTemp)
	require.ErrorIs(t, err, fs.ErrNotExist, "the temporary file is removed")
}

// asUser runs f with the file access of that user, on a thread that ends with f.
func asUser(id int, f func() []error) (errs []error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with its goroutine
		if err := syscall.Setfsuid(id); err != nil {
			errs = []error{err}
			return
		}
		errs = f()
	}()
	<-done
	return errs
}
