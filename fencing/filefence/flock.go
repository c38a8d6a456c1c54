// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const supported = true

// A call that waits in the kernel cannot be cancelled through ctx. So tryLock is repeated with a back-off between these
// limits, which begins short because most writes are short.
const minPause, maxPause = time.Millisecond, 50 * time.Millisecond

// lock waits until this call is the only one, of all processes, that holds the lock of r, and returns the locked file.
// Closing the file releases the lock, unless another process has the file open too; the system closes it when the process
// dies.
func (r record) lock(ctx context.Context, c creation) (*os.File, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		file, err := r.tryLock(c)
		if err == nil {
			// Do must not begin a write after ctx is done.
			if err = context.Cause(ctx); err == nil {
				return file, nil
			}
			return nil, errors.Join(err, file.Close())
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the lock of %s: %w", r.lockFile, context.Cause(ctx))
		}
	}
}

// tryLock opens the file anew, since a flock belongs to the open file: two calls in one process exclude each other as well.
func (r record) tryLock(c creation) (*os.File, error) {
	if err := r.unmoved(); err != nil {
		return nil, err
	}
	file, err := r.open(c)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&os.PathError{Op: "flock", Path: r.lockFile, Err: err}, file.Close())
	}
	if err := r.same(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// open opens the lock file for reading, which is sufficient for a flock: another user may own the file. It creates the file
// if it is missing and c allows that.
func (r record) open(c creation) (*os.File, error) {
	file, err := os.Open(r.lockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return r.create(c)
	}
	return file, err
}

// create creates the lock file, which open has found missing. A token file is stored before it, with no token as long as none
// was admitted: a lock file without a token file therefore means that the token was removed. The lock of the directory
// orders the first calls for a resource.
func (r record) create(c creation) (*os.File, error) {
	dir, err := os.Open(r.dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // which releases the lock
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, &os.PathError{Op: "flock", Path: r.dir, Err: err}
	}
	if file, err := os.Open(r.lockFile); !errors.Is(err, fs.ErrNotExist) {
		return file, err // another call has just created it
	}
	switch stored, err := r.read(); {
	case errors.Is(err, fs.ErrNotExist):
		if err := r.store(state{}); err != nil {
			return nil, err
		}
	case c == always:
	case err != nil:
		return nil, err
	case stored.newest != 0:
		return nil, fmt.Errorf("%w: %s is missing, and a process may hold the lock of the removed file: "+
			"once no function of the resource runs, call Reset with the newest token", ErrReplaced, r.lockFile)
	}
	for _, step := range r.lockSteps() {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return os.Open(r.lockFile)
}

// lockSteps returns the steps that create the lock file. The file gets its name when it has its mode: a process that is killed
// between creating it and setting its mode would otherwise leave a file that other users cannot open, and that no guard may
// replace. The temporary file of such a process is removed. A link, unlike a rename, does not replace a file that has the name
// already: another process may hold its lock. A temporary file that remains after the link is another name of the lock file.
func (r record) lockSteps() []func() error {
	return []func() error{
		func() error { return remove(r.lockTemp) },
		func() error { return create(r.lockTemp, "") },
		func() error { return os.Link(r.lockTemp, r.lockFile) },
		func() error { return os.Remove(r.lockTemp) },
	}
}
