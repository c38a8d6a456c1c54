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

// ErrDamaged is wrapped in the error about a file that does not hold what was written to it. The fence then refuses all
// tokens of its resource, which is the safe side. The operator passes [Fence.Reset] a token that no earlier writer exceeds:
// that of the current holder of the lock will do, since it is the newest grant of all.
var ErrDamaged = errors.New("the file is damaged: all tokens are refused until Reset is called with that of the lock's current holder")

// A record is the stored token of one resource: a file that is replaced, and one that is locked. The lock cannot be on
// the first, since a waiter would hold the lock of a file that is no longer there.
type record struct {
	dir, resource    string
	folder           *os.File
	file, temp, gate string
}

// A state is what is stored of a resource.
type state struct {
	newest  fencing.Token
	history string // empty: unknown
}

// A beginning says what a lock file that is missing means.
type beginning int

const (
	known beginning = iota // a resource that has a token has had one, which was removed
	anew                   // the operator begins anew
)

// mode is that of all files, whatever the umask: what root has written first, the service must be able to read.
const mode fs.FileMode = 0o644

// A name may be longer than a file's, look like a path, or differ from another in case only: its hash does not.
func (f *Fence) record(resource string) record {
	base := filepath.Join(f.dir, fmt.Sprintf("%x", sha256.Sum256([]byte(resource))))
	return record{dir: f.dir, folder: f.folder, resource: resource, file: base + ".fence", temp: base + ".new", gate: base + ".lock"}
}

// inFolder returns an error if another folder is at the path of the one that was opened.
func (r record) inFolder() error {
	opened, err := r.folder.Stat()
	if err != nil {
		return err
	}
	at, err := os.Stat(r.dir)
	if err != nil {
		return err
	}
	if !os.SameFile(opened, at) {
		return fmt.Errorf("%w: %s is another folder than the one that was opened: "+
			"once no function runs in that one, open the fence again", ErrReplaced, r.dir)
	}
	return nil
}

// same returns an error if lock is not what another process would lock now.
func (r record) same(lock *os.File) error {
	if err := r.inFolder(); err != nil {
		return err
	}
	held, err := lock.Stat()
	if err != nil {
		return fmt.Errorf("the function must not close the lock's file: %w", err)
	}
	at, err := os.Stat(r.gate)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !os.SameFile(held, at) {
		return fmt.Errorf("%w: %s is not the file that was locked: "+
			"once no function of the resource runs, call Reset with the newest token", ErrReplaced, r.gate)
	}
	return nil
}

// admit is called with the lock held. When it returns nil, token is the newest, and durably so.
func (r record) admit(token fencing.Token, history string) error {
	stored, err := r.read()
	if err != nil {
		return err
	}
	if history == "" {
		history = stored.history
	}
	switch {
	case stored.history != "" && history != stored.history:
		return &fencing.HistoryError{Token: token, Given: history, Stored: stored.history}
	case token < stored.newest:
		return &fencing.StaleError{Token: token, Newest: stored.newest}
	case token > stored.newest || history != stored.history:
		return r.store(state{token, history})
	}
	// The process that stored it may have been killed between the rename and the sync: then a loss of power after this
	// write would bring back the older file, and with it an older holder.
	return sync(r.dir)
}

func (r record) read() (state, error) {
	content, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
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

// steps replaces the file so that a crash between any two leaves the old one or the new one, whole. The temporary file of
// an earlier crash is removed, not overwritten: it may be another user's.
func (r record) steps(s state) []func() error {
	return []func() error{
		func() error {
			if err := os.Remove(r.temp); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		},
		func() error { return create(r.temp, r.encode(s)) },
		func() error { return sync(r.temp) }, // or the name could be on the disk before the content is
		func() error { return os.Rename(r.temp, r.file) },
		func() error { return sync(r.dir) }, // or the rename could be undone by a loss of power
	}
}

// encode writes the token and its history for the reader, the resource for the operator who finds a file named by a hash,
// and a sum over all, which a torn file does not have. A token without a history is written as it was before there were
// any.
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
	// There is one way to write each state: a file that differs in a byte was not written by a fence.
	if content != r.encode(s) {
		return state{}, ErrDamaged
	}
	return s, nil
}

// create makes a new file that all users may read.
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
