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

// ErrDamaged is wrapped in the error about a file that does not hold what was written to it. Its resource is then shut
// to everybody, which is the safe side. The operator passes [Fence.Reset] a token that nobody who has written exceeds:
// that of the current holder of the lock will do, since it is the newest grant of all.
var ErrDamaged = errors.New("the file is damaged: nobody is admitted until Reset is called with the token of the lock's current holder")

// A record is the stored token of one resource: a file that is replaced, and one that is locked. The lock cannot be on
// the first, since whoever waits for it would hold the lock of a file that is no longer there.
type record struct {
	dir, resource    string
	file, temp, gate string
}

// A name may be longer than a file's, look like a path, or differ from another in case only: its hash does not.
func (f *Fence) record(resource string) record {
	base := filepath.Join(f.dir, fmt.Sprintf("%x", sha256.Sum256([]byte(resource))))
	return record{dir: f.dir, resource: resource, file: base + ".fence", temp: base + ".new", gate: base + ".lock"}
}

// admit is called with the lock held. When it returns nil, token is the newest, and durably so.
func (r record) admit(token fencing.Token) error {
	newest, err := r.read()
	switch {
	case err != nil:
		return err
	case token < newest:
		return &fencing.StaleError{Token: token, Newest: newest}
	case token > newest:
		return r.store(token)
	}
	// Whoever stored it may have been killed between the rename and the sync: then a loss of power after this write
	// would bring back the older file, and with it an older holder.
	return sync(r.dir)
}

func (r record) read() (fencing.Token, error) {
	content, err := os.ReadFile(r.file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	newest, err := r.decode(string(content))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", r.file, err)
	}
	return newest, nil
}

func (r record) store(newest fencing.Token) error {
	for _, step := range r.steps(newest) {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// steps replaces the file so that a crash between any two leaves the old one or the new one, whole. What an earlier
// crash left in the temporary file is overwritten.
func (r record) steps(newest fencing.Token) []func() error {
	return []func() error{
		func() error { return os.WriteFile(r.temp, []byte(r.encode(newest)), 0o644) },
		func() error { return sync(r.temp) }, // or the name could be on the disk before the content is
		func() error { return os.Rename(r.temp, r.file) },
		func() error { return sync(r.dir) }, // or the rename could be undone by a loss of power
	}
}

// encode writes the token for the reader, the resource for the operator who finds a file named by a hash, and a sum
// over both, by which a torn file is told.
func (r record) encode(newest fencing.Token) string {
	text := fmt.Sprintf("lockkeeper fence 1\ntoken %d\nresource %q\n", int64(newest), r.resource)
	return fmt.Sprintf("%ssum %x\n", text, sha256.Sum256([]byte(text)))
}

func (r record) decode(content string) (fencing.Token, error) {
	_, rest, _ := strings.Cut(content, "\ntoken ")
	digits, _, _ := strings.Cut(rest, "\n")
	var newest fencing.Token
	if digits != "0" {
		var err error
		if newest, err = fencing.ParseToken(digits); err != nil {
			return 0, ErrDamaged
		}
	}
	// There is one way to write each token: what is not it, byte for byte, was written by nobody.
	if content != r.encode(newest) {
		return 0, ErrDamaged
	}
	return newest, nil
}

func sync(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
