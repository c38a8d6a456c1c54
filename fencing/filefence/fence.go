// SPDX-License-Identifier: Apache-2.0

// Package filefence guards what several processes of one host write: a file, a folder, a device. It keeps the newest
// token of each resource in a folder, and holds a lock of the operating system while the admitted function writes.
//
// The guarantee: once the function of a [Fence.Do] with a token has begun, no function with an older token begins, in
// any process that opens the same folder, across restarts and loss of power; and no two functions of one resource run
// at the same time. The condition: every writer goes through Do, and the folder is on a file system of this host that
// keeps what it has synced. It lapses when all files of a resource are removed from the folder, when the folder is
// restored from a backup, and on a network file system, whose locks and syncs promise less.
//
// # Processes that the function starts
//
// A process that the function starts can outlive the holder: kill -9 ends the holder only, the operating system gives the
// lock to the next one, and the old holder's rsync goes on writing over its files. So Do hands the locked file to the
// function, which passes it to what it starts. The lock is then free only when all of them have ended:
//
//	err := fence.Do(ctx, "mirror", hold.Token(), func(lock *os.File) error {
//		cmd := exec.Command("rsync", "-a", source, target)
//		cmd.ExtraFiles = []*os.File{lock}
//		return cmd.Run()
//	})
//
// A program started that way must not close descriptors that it does not know, as some daemons do.
//
// # Removed files, switched folders
//
// Do locks one file of the folder. A second file at the same path would be a second lock, so Do compares: the locked file
// with the one at the path, and the folder with the one that was opened, before it calls the function and after it has
// returned. If a resource has a token and no lock file, or a symbolic link to the folder points elsewhere now, the error
// wraps [ErrReplaced]. A process that opens the fence after a link was switched sees only the new folder: move the files
// with it, or reset its resources.
//
// The files can be read by all users that can enter the folder, and a user that can read the lock's file can lock it: the
// permissions of the folder decide. Users that share a fence need to write to its folder, which must not have the sticky
// bit; they need not own its files.
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
)

// ErrReplaced is wrapped in the error about a lock file or a folder that is not the one that the fence used before: it was
// removed or replaced, and another process may hold the lock of the other one. If the function was not called, nothing was
// written. If it was, another may have run at the same time.
var ErrReplaced = errors.New("the fence's files were removed or replaced")

// Options for [Open]; zero fields mean the default.
type Options struct {
	_ struct{}

	// History is the id of the ensemble's history in which the tokens were granted, as Client.History of package recipes
	// returns it. The fence stores it beside each token, and refuses a token of another history with a
	// [*fencing.HistoryError]. Default: histories are neither checked nor changed.
	History string
}

// A Fence keeps the newest tokens of any number of resources in one folder. It keeps the folder open, holds nothing else
// between calls, and needs no closing. Its methods may be called concurrently.
type Fence struct {
	dir     string
	folder  *os.File // pins the identity of dir, which could otherwise pass to a new folder
	history string
}

// Open returns the fence whose state is in dir, a folder of its own. opts may be nil. The folder must exist: one made in
// passing, because of a name that was mistyped or a disk that was not mounted, would be a fence that refuses no token.
func Open(dir string, opts *Options) (*Fence, error) {
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
	f := &Fence{dir: absolute}
	if opts != nil && opts.History != "" {
		if err := fencing.CheckHistory(opts.History); err != nil {
			return nil, fmt.Errorf("filefence: open %s: %w", absolute, err)
		}
		f.history = opts.History
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("filefence: open: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("filefence: open %s: not a folder", absolute)
	}
	if f.folder, err = os.Open(absolute); err != nil {
		return nil, fmt.Errorf("filefence: open: %w", err)
	}
	return f, nil
}

// Do calls write if token is not older than the newest one admitted for resource, and returns what it returns, wrapped.
// While write runs, no other function of this resource does, in any process. It waits for those until ctx is done;
// once write has begun, ctx is write's own affair. Do must not be called for the same resource from within write: it
// would wait for itself.
//
// The file that write gets is the lock. It is for the processes that write starts, see the package comment; write neither
// closes nor unlocks it. Where such a process is still running when write returns, the resource stays locked until it
// has ended.
//
// An older token is refused with a [*fencing.StaleError], one of another history with a [*fencing.HistoryError], one that
// is not valid with an error that wraps [fencing.ErrInvalid], and damaged state with one that wraps [ErrDamaged] or
// [ErrReplaced]; then, and on any error before write has begun, write is not called. If the disk failed, a newer token may
// have been admitted all the same, which refuses no client that still holds the lock.
func (f *Fence) Do(ctx context.Context, resource string, token fencing.Token, write func(lock *os.File) error) error {
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
	lock, err := r.lock(ctx, known)
	if err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	if err := r.admit(token, f.history); err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	// Again, now that the token is stored: without a token, a lock file that is missing is a new one's beginning. Where
	// it was removed before the token was stored, this finds it; after, another Do finds a token without a lock file.
	if err := r.same(lock); err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	err = write(lock)
	if replaced := r.same(lock); replaced != nil {
		err = errors.Join(err, fmt.Errorf("the function has run, and others may have run at the same time: %w", replaced))
	}
	if err != nil {
		return fmt.Errorf("filefence: write %q with token %d: %w", resource, token, err)
	}
	return nil
}

// Newest returns the newest token admitted for resource, or zero if there is none. Others may be calling Do: it is for
// reports, not for deciding. It does not wait for them.
func (f *Fence) Newest(resource string) (fencing.Token, error) {
	err := fencing.CheckResource(resource)
	if err != nil {
		return 0, fmt.Errorf("filefence: newest of %.64q: %w", resource, err)
	}
	r := f.record(resource)
	if err := r.inFolder(); err != nil {
		return 0, fmt.Errorf("filefence: newest of %q: %w", resource, err)
	}
	stored, err := r.read()
	if err != nil {
		return 0, fmt.Errorf("filefence: newest of %q: %w", resource, err)
	}
	return stored.newest, nil
}

// Reset makes newest the newest token of resource, whatever it was and in whatever state its files are; zero admits any.
// The history of resource becomes that of the fence's [Options], or unknown if they have none. It refuses a negative token
// with an error that wraps [fencing.ErrInvalid]. It waits, until ctx is done, for a function that is writing. When it has
// returned nil, the reset is durable; an error leaves the old token or the new one.
//
// It is for an operator whose ensemble was restored or wiped, or whose fence is damaged, and safe under the conditions
// of [fencing.Gate.Reset]. After [ErrReplaced] it is safe once no function of resource runs: it makes a new lock file,
// which a function that locked the old one does not know.
func (f *Fence) Reset(ctx context.Context, resource string, newest fencing.Token) error {
	err := check(ctx, resource)
	if err == nil && newest < 0 {
		err = fmt.Errorf("token %d: %w", int64(newest), fencing.ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("filefence: reset %.64q: %w", resource, err)
	}
	r := f.record(resource)
	lock, err := r.lock(ctx, anew)
	if err != nil {
		return fmt.Errorf("filefence: reset %q: %w", resource, err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	if err := r.store(state{newest, f.history}); err != nil {
		return fmt.Errorf("filefence: reset %q: %w", resource, err)
	}
	return nil
}

func check(ctx context.Context, resource string) error {
	if err := fencing.CheckResource(resource); err != nil {
		return err
	}
	return context.Cause(ctx)
}
