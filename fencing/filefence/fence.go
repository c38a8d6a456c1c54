// SPDX-License-Identifier: Apache-2.0

// Package filefence guards what several processes of one host write: a file, a folder, a device. It keeps the newest
// token of each resource in a folder, and holds a lock of the operating system while the admitted function writes.
//
// The guarantee: once the function of a [Fence.Do] with a token has begun, no function with an older token begins, in
// any process that opens the same folder, across restarts and loss of power; and no two functions of one resource run
// at the same time. The condition: every writer goes through Do, and the folder is on a file system of this host that
// keeps what it has synced. It lapses when files are removed from the folder, when the folder is restored from a
// backup, and on a network file system, whose locks and syncs promise less.
//
// # What it does not promise
//
//   - A function that fails or is killed halfway leaves its half: its token stays admitted, older ones stay out, and
//     what was written is for the next function to mend. Write a new file and rename it over the old one.
//   - The function's own writes are not synced: that is its affair.
//   - Waiters are not served in order.
//   - It works where the system has flock: Linux, macOS and the BSDs. Elsewhere [Open] fails with an error that wraps
//     [errors.ErrUnsupported].
package filefence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/internal/names"
)

// A Fence keeps the newest tokens of any number of resources in one folder. It holds nothing open between calls and
// needs no closing. Its methods may be called concurrently.
type Fence struct {
	dir string
}

// Open returns the fence whose state is in dir, a folder of its own. It must exist: one made in passing, because of a
// name that was mistyped or a disk that was not mounted, would be a fence that refuses nobody.
func Open(dir string) (*Fence, error) {
	if !locks {
		return nil, fmt.Errorf("filefence: open %s: this system has no flock: %w", dir, errors.ErrUnsupported)
	}
	if dir == "" {
		// Of a setting that is missing, and not the working directory, which is another one in the next process.
		return nil, errors.New("filefence: open: the folder's name is empty")
	}
	absolute, err := filepath.Abs(dir) // a process may change its working directory
	if err != nil {
		return nil, fmt.Errorf("filefence: open %s: %w", dir, err)
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("filefence: open: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("filefence: open %s: not a folder", absolute)
	}
	return &Fence{dir: absolute}, nil
}

// Do calls write if token is not older than the newest one admitted for resource, and returns what it returns, wrapped.
// While write runs, no other function of this resource does, in any process. It waits for those until ctx is done;
// once write has begun, ctx is write's own affair. Do must not be called for the same resource from within write: it
// would wait for itself.
//
// An older token is refused with a [*fencing.StaleError], one that is not valid with an error that wraps
// [fencing.ErrInvalid], and damaged state with one that wraps [ErrDamaged]; then, and on any error before write has
// begun, write is not called. If the disk failed, a newer token may have been admitted all the same, which refuses
// nobody who still holds the lock.
func (f *Fence) Do(ctx context.Context, resource string, token fencing.Token, write func() error) error {
	err := check(ctx, resource)
	switch {
	case err != nil:
	case !token.Valid():
		err = fmt.Errorf("token %d: %w", int64(token), fencing.ErrInvalid)
	case write == nil:
		err = errors.New("the function is nil")
	}
	if err != nil {
		return fmt.Errorf("filefence: do %.64q: %w", resource, err)
	}
	r := f.record(resource)
	unlock, err := r.lock(ctx)
	if err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	defer unlock()
	if err := r.admit(token); err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	if err := write(); err != nil {
		return fmt.Errorf("filefence: write %q with token %d: %w", resource, token, err)
	}
	return nil
}

// Newest returns the newest token admitted for resource, or zero if there is none. Others may be calling Do: it is for
// reports, not for deciding. It does not wait for them.
func (f *Fence) Newest(resource string) (fencing.Token, error) {
	err := names.Check(resource)
	if err != nil {
		return 0, fmt.Errorf("filefence: newest of %.64q: %w", resource, err)
	}
	newest, err := f.record(resource).read()
	if err != nil {
		return 0, fmt.Errorf("filefence: newest of %q: %w", resource, err)
	}
	return newest, nil
}

// Reset makes newest the newest token of resource, whatever it was and in whatever state its file is; zero admits any.
// It refuses a negative one with an error that wraps [fencing.ErrInvalid]. It waits, until ctx is done, for a function
// that is writing. When it has returned nil, the reset is durable; an error leaves the old token or the new one.
//
// It is for an operator whose ensemble was restored or wiped, or whose fence is damaged, and safe under the conditions
// of [fencing.Gate.Reset].
func (f *Fence) Reset(ctx context.Context, resource string, newest fencing.Token) error {
	err := check(ctx, resource)
	if err == nil && newest < 0 {
		err = fmt.Errorf("token %d: %w", int64(newest), fencing.ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("filefence: reset %.64q: %w", resource, err)
	}
	r := f.record(resource)
	unlock, err := r.lock(ctx)
	if err != nil {
		return fmt.Errorf("filefence: reset %q: %w", resource, err)
	}
	defer unlock()
	if err := r.store(newest); err != nil {
		return fmt.Errorf("filefence: reset %q: %w", resource, err)
	}
	return nil
}

func check(ctx context.Context, resource string) error {
	if err := names.Check(resource); err != nil {
		return err
	}
	return context.Cause(ctx)
}
