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

const locks = true

// A call that waits in the kernel cannot be told that its ctx is done; so it is asked again and again, soon at first,
// since most writes are short.
const soonest, latest = time.Millisecond, 50 * time.Millisecond

// lock returns the locked file once this call is the only one, of all processes, that has the lock of r. Closing it gives
// the lock back, unless another process has the file too; the system closes it when the process dies.
func (r record) lock(ctx context.Context, b beginning) (*os.File, error) {
	for pause := soonest; ; pause = min(2*pause, latest) {
		file, err := r.tryLock(b)
		if err == nil {
			// One that ctx allowed is still not begun after it.
			if err = context.Cause(ctx); err == nil {
				return file, nil
			}
			return nil, errors.Join(err, file.Close())
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for the lock of %s: %w", r.gate, context.Cause(ctx))
		}
	}
}

// tryLock opens the file anew, since a flock belongs to what was opened: two calls in one process exclude each other too.
func (r record) tryLock(b beginning) (*os.File, error) {
	if err := r.inFolder(); err != nil {
		return nil, err
	}
	file, err := r.open(b)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&os.PathError{Op: "flock", Path: r.gate, Err: err}, file.Close())
	}
	if err := r.same(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// open opens the lock's file for reading, which is enough for a flock: the file may be another user's. It makes it if the
// resource has none yet.
func (r record) open(b beginning) (*os.File, error) {
	file, err := os.Open(r.gate)
	if errors.Is(err, fs.ErrNotExist) {
		return r.create(b)
	}
	return file, err
}

// create makes the lock's file, which was missing when this call looked.
func (r record) create(b beginning) (*os.File, error) {
	// The order matters: the file was missing before the token was looked for. See Do.
	if b == known {
		switch _, err := os.Stat(r.file); {
		case err == nil:
			// The token is stored under the lock. So if another call has made the file since, it is there by now.
			if file, err := os.Open(r.gate); !errors.Is(err, fs.ErrNotExist) {
				return file, err
			}
			return nil, fmt.Errorf("%w: %s is missing, and a process may hold the lock of the removed file: "+
				"once no function of the resource runs, call Reset with the newest token", ErrReplaced, r.gate)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, err
		}
	}
	file, err := os.OpenFile(r.gate, os.O_RDONLY|os.O_CREATE|os.O_EXCL, mode)
	if errors.Is(err, fs.ErrExist) {
		return os.Open(r.gate) // another process has just made it
	}
	if err != nil {
		return nil, err
	}
	if err := file.Chmod(mode); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
