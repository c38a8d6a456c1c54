// SPDX-License-Identifier: Apache-2.0

package filefence

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// ErrDamaged is wrapped in the error about a token file that is missing, or whose content is not what a guard wrote. The
// guard then refuses all tokens of the resource, which is safe. The operator passes [Guard.Reset] a token that no earlier
// writer's token exceeds. The token of the lock's current holder meets this condition, since it is the newest grant.
var ErrDamaged = errors.New("the file is damaged: all tokens are refused until Reset is called with the token of the lock's current holder")

// errRemoved is the error about a resource that has a lock file and no token file.
var errRemoved = fmt.Errorf("removed, and the newest token with it: %w", ErrDamaged)

// A record is the stored state of one resource: a token file, which is replaced at each change, and a lock file. The token
// file itself cannot be locked: a waiter would acquire the lock of a file that has been replaced.
type record struct {
	dir, resource      string
	opened             *os.File
	file, temp         string
	lockFile, lockTemp string
}

// A state is the content of a token file.
type state struct {
	newest  fencing.Token // zero: none was admitted
	history string        // empty: unknown
}

// A creation is the condition under which a missing lock file is created.
type creation int

const (
	withoutToken creation = iota // a resource with a token had a lock file, which was removed
	always                       // for a reset
)

// mode is the mode of all files, whatever the umask: the service must be able to read files that root wrote first.
const mode fs.FileMode = 0o644

// record returns the record of resource. Its files are named by a hash, because the name of a resource may be too long for a
// file name, look like a path, or differ from another name in case only.
func (g *Guard) record(resource string) record {
	base := filepath.Join(g.dir, fmt.Sprintf("%x", sha256.Sum256([]byte(resource))))
	return record{
		dir: g.dir, opened: g.opened, resource: resource,
		file: base + ".fence", temp: base + ".new", lockFile: base + ".lock", lockTemp: base + ".lock.new",
	}
}

// unmoved returns an error if the directory at the path is not the opened one.
func (r record) unmoved() error {
	opened, err := r.opened.Stat()
	if err != nil {
		return err
	}
	at, err := os.Stat(r.dir)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, at) {
		return fmt.Errorf("%w: %s is not the directory that was opened: "+
			"once no function of the opened one runs, create the guard again", ErrReplaced, r.dir)
	}
	return nil
}

// same returns an error if lock is not the file that another process would lock now.
func (r record) same(lock *os.File) error {
	if err := r.unmoved(); err != nil {
		return err
	}
	held, err := lock.Stat()
	if err != nil {
		return fmt.Errorf("the function must not close the lock file: %w", err)
	}
	at, err := os.Stat(r.lockFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(held, at) {
		return fmt.Errorf("%w: %s is not the file that was locked: "+
			"once no function of the resource runs, call Reset with the newest token", ErrReplaced, r.lockFile)
	}
	return nil
}

// admit admits token or returns why not. The caller holds the lock. When admit returns nil, token is the newest, durably.
func (r record) admit(token fencing.Token, history string) error {
	stored, err := r.read()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", r.file, errRemoved)
	}
	if err != nil {
		return err
	}
	next, err := fencing.CheckInHistory(token, stored.newest, history, stored.history)
	if err != nil {
		return err
	}
	if next := (state{token, next}); next != stored {
		return r.store(next)
	}
	// The process that stored this token may have been killed between the rename and the sync. Without a sync, a power
	// failure after this write could restore the older file, and an older token would be admitted.
	return sync(r.dir)
}

// known returns the stored state without the lock, and the zero state for a resource that was never written.
func (r record) known() (state, error) {
	// The order matters: if the lock file exists, the token file has existed since before.
	_, lockErr := os.Stat(r.lockFile)
	stored, err := r.read()
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return stored, err
	case errors.Is(lockErr, fs.ErrNotExist):
		return state{}, nil
	}
	return state{}, errors.Join(lockErr, fmt.Errorf("%s: %w", r.file, errRemoved))
}

// read returns the stored state, or an error that wraps [fs.ErrNotExist] if there is no token file.
func (r record) read() (state, error) {
	content, err := os.ReadFile(r.file)
	if err != nil {
		return state{}, err
	}
	stored, err := r.decode(string(content))
	if err != nil {
		return state{}, fmt.Errorf("%s: %w", r.file, err)
	}
	return stored, nil
}

func (r record) store(s state) error {
	for _, step := range r.steps(s) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// steps returns the steps that replace the token file. A crash between any two of them leaves the old file or the new one,
// whole. The temporary file of an earlier crash is removed, not overwritten, because another user may own it.
func (r record) steps(s state) []func() error {
	return []func() error{
		func() error { return remove(r.temp) },
		func() error { return create(r.temp, r.encode(s)) },
		func() error { return sync(r.temp) }, // or the name could be on the disk before the content
		func() error { return os.Rename(r.temp, r.file) },
		func() error { return sync(r.dir) }, // or a power failure could undo the rename
	}
}

// encode returns the content of the token file: the token and its history, the resource for the operator who finds a file
// named by a hash, and a checksum, which a torn file fails. A state without a history has the format that earlier releases
// read and write.
func (r record) encode(s state) string {
	text := fmt.Sprintf("lockkeeper fence 1\ntoken %d\nresource %q\n", int64(s.newest), r.resource)
	if s.history != "" {
		text = fmt.Sprintf("lockkeeper fence 2\ntoken %d\nhistory %s\nresource %q\n", int64(s.newest), s.history, r.resource)
	}
	return fmt.Sprintf("%ssum %x\n", text, sha256.Sum256([]byte(text)))
}

func (r record) decode(content string) (state, error) {
	_, rest, _ := strings.Cut(content, "\ntoken ")
	digits, rest, _ := strings.Cut(rest, "\n")
	var s state
	if digits != "0" {
		var err error
		if s.newest, err = fencing.ParseToken(digits); err != nil {
			return state{}, ErrDamaged
		}
	}
	if history, found := strings.CutPrefix(rest, "history "); found {
		s.history, _, _ = strings.Cut(history, "\n")
		if fencing.CheckHistory(s.history) != nil {
			return state{}, ErrDamaged
		}
	}
	// Each state has exactly one encoding: a guard did not write a file that differs from it in a byte.
	if content != r.encode(s) {
		return state{}, ErrDamaged
	}
	return s, nil
}

// remove removes a file that may be missing.
func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// create creates a new file that all users may read.
func create(name, content string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

func sync(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
