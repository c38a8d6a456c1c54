// SPDX-License-Identifier: Apache-2.0

// Package filefence guards what several processes of one host write: a file, a directory, a device. It stores the newest
// token of each resource in a directory, and holds a lock of the operating system while the admitted function writes.
//
// The guarantee: once the function of a [Guard.Do] with a token has begun, no function with an older token begins, in any
// process that opens the same directory, across restarts and power failures; and no two functions of one resource run at the
// same time. The condition: every writer goes through Do, and the directory is on a file system of this host that does not
// lose what it has synced. The guarantee ends when all files of a resource are removed from the directory and when the
// directory is restored from a backup. It does not hold on a network file system, whose locks and syncs promise less.
//
// # Processes that the function starts
//
// A process that the function starts can outlive the holder: kill -9 ends the holder only, the operating system grants the
// lock to the next holder, and the old holder's rsync continues to write over its files. Do therefore passes the locked file
// to the function, which passes it to the processes that it starts. The lock is then free only when all of them have ended:
//
//	err := guard.Do(ctx, "mirror", hold.Token(), func(lock *os.File) error {
//		cmd := exec.Command("rsync", "-a", source, target)
//		cmd.ExtraFiles = []*os.File{lock}
//		return cmd.Run()
//	})
//
// A program started in this way must not close descriptors that it does not know, as some daemons do.
//
// # Removed files, switched directories
//
// Do locks one file of the directory. A second file at the same path would be a second lock. Do therefore makes two
// comparisons before it calls the function and again after the function has returned: the locked file with the file at its
// path, and the opened directory with the directory at its path. If a resource has a token and no lock file, or a symbolic
// link to the directory now points elsewhere, the error wraps [ErrReplaced]. If it has a lock file and no token file, the
// error wraps [ErrDamaged]. A process that opens the guard after a link was switched sees only the new directory: move the
// files with the link, or reset the resources.
//
// All users that can enter the directory can read the files, and a user that can read the lock file can lock it: access is
// controlled by the permissions of the directory. Users that share a guard need permission to write to its directory, which
// must not have the sticky bit; they need not own its files.
//
// # What it does not promise
//
//   - Writes are not atomic: a function that fails or is killed may leave a partial write. Its token stays admitted, older
//     tokens are refused, and the next function must repair the data. Write a new file and rename it over the old one.
//   - Do does not sync what the function writes; the function does, if that must be durable.
//   - Waiters are not served in order.
//   - The package needs flock: Linux, macOS and the BSDs have it. Elsewhere [New] fails with an error that wraps
//     [errors.ErrUnsupported]. The file system of the directory must have hard links.
package filefence

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// ErrReplaced is wrapped in the error of an operation that finds a lock file or a directory other than the one that the
// guard used before: it was removed or replaced, and another process may hold the lock of the other file. If the function
// was not called, nothing was written. If it was called, another function may have run at the same time.
var ErrReplaced = errors.New("the guard's files were removed or replaced")

// Options are the options of a Guard. The zero value of a field means its default.
type Options struct {
	_ struct{}

	// History is the id of the ensemble's history in which the tokens were granted, as Client.History of package recipes
	// returns it. The guard stores it beside each token, and refuses a token of another history with a
	// [*fencing.HistoryError]. Default: histories are neither checked nor changed.
	History string
}

// A Guard stores the newest tokens of any number of resources in one directory. It keeps the directory open, holds no other
// resource between calls, and needs no closing. Its methods may be called concurrently.
type Guard struct {
	dir     string
	opened  *os.File // dir, kept open so that no new directory can get its identity
	history string
}

// New returns the guard whose state is in dir, a directory that contains nothing else. opts may be nil. The directory must
// exist: if New created it, a mistyped name or an unmounted disk would yield a guard that refuses no token.
func New(dir string, opts *Options) (*Guard, error) {
	if !supported {
		return nil, fmt.Errorf("filefence: open %s: this system has no flock: %w", dir, errors.ErrUnsupported)
	}
	if dir == "" {
		// A setting is missing. The working directory is no substitute: it may differ in the next process.
		return nil, errors.New("filefence: open: the name of the directory is empty")
	}
	absolute, err := filepath.Abs(dir) // a process may change its working directory
	if err != nil {
		return nil, fmt.Errorf("filefence: open %s: %w", dir, err)
	}
	g := &Guard{dir: absolute}
	if opts != nil && opts.History != "" {
		if err := fencing.CheckHistory(opts.History); err != nil {
			return nil, fmt.Errorf("filefence: open %s: %w", absolute, err)
		}
		g.history = opts.History
	}
	info, err := os.Stat(absolute)
	if err != nil {
		return nil, fmt.Errorf("filefence: open: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("filefence: open %s: not a directory", absolute)
	}
	if g.opened, err = os.Open(absolute); err != nil {
		return nil, fmt.Errorf("filefence: open: %w", err)
	}
	return g, nil
}

// Do calls write if token is not older than the newest one admitted for resource, and returns the error of write, wrapped.
// While write runs, no other function of this resource runs, in any process. Do waits for such functions until ctx is done;
// once write has begun, only write itself observes ctx. Do must not be called for the same resource from within write: it
// would wait for itself.
//
// The lock argument of write is the locked file. It is for the processes that write starts, see the package comment; write
// must neither close nor unlock it. If such a process is still running when write returns, the resource stays locked until
// it has ended.
//
// Do refuses an older token with a [*fencing.StaleError], one of another history with a [*fencing.HistoryError], and an
// invalid one with an error that wraps [fencing.ErrInvalid]. It reports damaged state with an error that wraps [ErrDamaged]
// or [ErrReplaced]. In these cases, and on any error before write has begun, write is not called. After a disk error, a
// newer token may have been admitted nevertheless; no client that still holds the lock is refused for that.
func (g *Guard) Do(ctx context.Context, resource string, token fencing.Token, write func(lock *os.File) error) error {
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
	r := g.record(resource)
	lock, err := r.lock(ctx, withoutToken)
	if err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	if err := r.admit(token, g.history); err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	// Compare again, now that the token is stored: as long as a resource has no token, a missing lock file is not an error.
	// If the file was removed before the token was stored, this comparison detects it; if after, another Do finds a token
	// without a lock file.
	if err := r.same(lock); err != nil {
		return fmt.Errorf("filefence: do %q: %w", resource, err)
	}
	err = write(lock)
	if replaced := r.same(lock); replaced != nil {
		err = errors.Join(err, fmt.Errorf("the function has run, and another may have run at the same time: %w", replaced))
	}
	if err != nil {
		return fmt.Errorf("filefence: write %q with token %d: %w", resource, token, err)
	}
	return nil
}

// Newest returns the newest token admitted for resource, or zero if there is none. It does not wait for calls of Do, and the
// result may be out of date when it returns: use it for reports, not for decisions.
func (g *Guard) Newest(ctx context.Context, resource string) (fencing.Token, error) {
	if err := check(ctx, resource); err != nil {
		return 0, fmt.Errorf("filefence: newest token of %.64q: %w", resource, err)
	}
	r := g.record(resource)
	if err := r.unmoved(); err != nil {
		return 0, fmt.Errorf("filefence: newest token of %q: %w", resource, err)
	}
	stored, err := r.known()
	if err != nil {
		return 0, fmt.Errorf("filefence: newest token of %q: %w", resource, err)
	}
	return stored.newest, nil
}

// Reset makes newest the newest token of resource, whatever it was and whatever the state of its files; zero admits any
// token. The history of resource becomes the history of the guard's [Options], or unknown if they have none. Reset refuses a
// negative token with an error that wraps [fencing.ErrInvalid]. It waits, until ctx is done, for a function that is writing.
// When it has returned nil, the reset is durable; after an error, the stored token is the old one or the new one.
//
// Reset is for an operator whose ensemble was restored or wiped, or whose fence is damaged, and is safe under the conditions
// of [fencing.Gate.Reset]. After [ErrReplaced] it is safe once no function of resource runs: it creates a new lock file,
// which does not exclude a function that locked the old one.
func (g *Guard) Reset(ctx context.Context, resource string, newest fencing.Token) error {
	err := check(ctx, resource)
	if err == nil && newest < 0 {
		err = fmt.Errorf("token %d: %w", int64(newest), fencing.ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("filefence: reset %.64q: %w", resource, err)
	}
	r := g.record(resource)
	lock, err := r.lock(ctx, always)
	if err != nil {
		return fmt.Errorf("filefence: reset %q: %w", resource, err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	if err := r.store(state{newest, g.history}); err != nil {
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
