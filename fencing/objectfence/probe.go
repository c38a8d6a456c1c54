// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// ErrUnconditional matches, with errors.Is, an error of [Probe] about a store that wrote although the condition of the write
// did not hold. A guard of such a store does not refuse a stale write that races with a newer one.
var ErrUnconditional = errors.New("the store does not honour the conditions of writes")

// Probe tests, by writing to an object that has no other use, whether store does what a guard needs: it refuses to create an
// object that exists, to replace a version that no longer exists, and to let two writes create the same object or replace
// the same version. Some stores and gateways do not recognise the headers of the conditions, ignore them, and write.
//
// The object may exist from an earlier Probe, which leaves one line of text: only an unused key tests its creation. If the
// object has other content, Probe returns an error and does not change it. Two concurrent Probes of one object disturb each
// other; the error then wraps [ErrPrecondition], and does not concern the store.
//
// Probe provokes concurrent writes a few times; it does not prove that the store always orders them.
func Probe(ctx context.Context, store Store, key string) error {
	err := fencing.CheckResource(key)
	if store == nil {
		err = errors.New("the store is nil")
	}
	if err == nil {
		err = probe(ctx, store, key)
	}
	if err != nil {
		return fmt.Errorf("objectfence: probe %.512q: %w", key, err)
	}
	return nil
}

func probe(ctx context.Context, store Store, key string) error {
	first, err := store.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("get: %w", err)
	}
	if err != nil {
		// A store may look for the object, and write it in a second step. Only the first writes of a key show this.
		if first, err = race(ctx, store, key, ""); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if err == nil && !bytes.HasPrefix(first.Body, []byte(signature)) {
		return errors.New("the object was not written by Probe and is left unchanged: choose another key")
	}
	second, err := exchange(ctx, store, key, first.Version)
	if err != nil {
		return err
	}
	if err := refuses(ctx, store, key, "", "create an object that exists"); err != nil {
		return err
	}
	third, err := exchange(ctx, store, key, second.Version)
	if err != nil {
		return err
	}
	if err := refuses(ctx, store, key, second.Version, "replace a version that no longer exists"); err != nil {
		return err
	}
	const rounds = 5
	for range rounds {
		if third, err = race(ctx, store, key, third.Version); err != nil {
			return err
		}
	}
	return nil
}

const signature = "lockkeeper probe "

func probeText() []byte { return []byte(signature + rand.Text() + "\n") }

// exchange replaces a version and returns the new object.
func exchange(ctx context.Context, store Store, key, replaces string) (Object, error) {
	text := probeText()
	if err := store.Put(ctx, key, text, replaces); err != nil {
		return Object{}, fmt.Errorf("put with version %q: %w", replaces, err)
	}
	now, err := store.Get(ctx, key)
	switch {
	case err != nil:
		return Object{}, fmt.Errorf("get after put: %w", err)
	case string(now.Body) != string(text):
		return Object{}, fmt.Errorf("get after put: want the object that was put, got %.64q", now.Body)
	case now.Version == "" || now.Version == replaces:
		return Object{}, fmt.Errorf("put with version %q: the new version is %q, want a different one", replaces, now.Version)
	}
	return now, nil
}

// refuses requires that the store refuses a write on that condition.
func refuses(ctx context.Context, store Store, key, replaces, what string) error {
	err := store.Put(ctx, key, probeText(), replaces)
	switch {
	case err == nil:
		return fmt.Errorf("%s: %w", what, ErrUnconditional)
	case !errors.Is(err, ErrPrecondition):
		return fmt.Errorf("%s: want ErrPrecondition: %w", what, err)
	}
	return nil
}

// race makes several concurrent writes replace one version, or create the object, and requires that at most one succeeds. It
// returns the object that remains. If each creation was refused, there is none.
func race(ctx context.Context, store Store, key, replaces string) (Object, error) {
	const writers = 8
	var (
		errs  [writers]error
		start = make(chan struct{})
		group sync.WaitGroup
	)
	for i := range writers {
		group.Go(func() {
			<-start
			errs[i] = store.Put(ctx, key, probeText(), replaces)
		})
	}
	close(start)
	group.Wait()
	written := 0
	for _, err := range errs {
		switch {
		case err == nil:
			written++
		case !errors.Is(err, ErrPrecondition):
			return Object{}, fmt.Errorf("concurrent put: %w", err)
		}
	}
	if written > 1 {
		what := "replaced the same version"
		if replaces == "" {
			what = "created the same object"
		}
		return Object{}, fmt.Errorf("%d of %d writes %s: %w", written, writers, what, ErrUnconditional)
	}
	// If none succeeded, that is no evidence of an ignored condition: S3 may answer all of them with a conflict.
	now, err := store.Get(ctx, key)
	switch {
	case err != nil:
		return Object{}, fmt.Errorf("get after put: %w", err)
	case now.Version == "":
		return Object{}, errors.New("get after put: the version is empty")
	}
	return now, nil
}
