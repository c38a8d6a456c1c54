// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const locks = true

// A call that waits in the kernel cannot be told that its ctx is done; so it is asked again and again, soon at first,
// since most writes are short.
const soonest, latest = time.Millisecond, 50 * time.Millisecond

// lock returns once this call is the only one, of all processes, that has the lock of r, and unlock gives it back. The
// system does the same when the process dies.
func (r record) lock(ctx context.Context) (unlock func(), err error) {
	for pause := soonest; ; pause = min(2*pause, latest) {
		file, err := r.tryLock()
		if err == nil {
			// One that ctx allowed is still not begun after it.
			if err = context.Cause(ctx); err == nil {
				return func() { _ = file.Close() }, nil // nothing was written to it
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
func (r record) tryLock() (*os.File, error) {
	file, err := os.OpenFile(r.gate, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(&os.PathError{Op: "flock", Path: r.gate, Err: err}, file.Close())
	}
	return file, nil
}
