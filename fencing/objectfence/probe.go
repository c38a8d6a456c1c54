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

// ErrUnconditional is what errors.Is finds in an error of [Probe] about a store that wrote what it should have refused. A
// guard of such a store refuses nobody who is quick enough.
var ErrUnconditional = errors.New("the store does not honour the conditions of writes")

// Probe finds out whether store does what a guard needs, by writing to an object that is nobody else's: it refuses to
// write where there is an object already, to replace a version that is no more, and to let two writes replace the same
// one. There are stores and gateways that take the conditions for headers they do not know, and write.
//
// The object of that key may be there from an earlier Probe, and stays, with a line of text in it; any other is an error,
// and left alone. Two Probes of one object at a time disturb each other; the error then wraps [ErrPrecondition], and says
// nothing about the store.
//
// That two writes side by side are kept apart is provoked, a few times, and not proven.
func Probe(ctx context.Context, store Store, key string) error {
	err := fencing.CheckResource(key)
	if store == nil {
		err = errors.New("the store is nil")
	}
	if err == nil {
		err = probe(ctx, store, key)
	}
	if err != nil {
		return fmt.Errorf("objectfence: probe the store with %.512q: %w", key, err)
	}
	return nil
}

func probe(ctx context.Context, store Store, key string) error {
	first, err := store.Get(ctx, key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("get: %w", err)
	}
	if err == nil && !bytes.HasPrefix(first.Body, []byte(signature)) {
		return errors.New("the object is somebody else's, and stays as it is: choose another key")
	}
	second, err := exchange(ctx, store, key, first.Version)
	if err != nil {
		return err
	}
	if err := refuses(ctx, store, key, "", "to create what is there"); err != nil {
		return err
	}
	third, err := exchange(ctx, store, key, second.Version)
	if err != nil {
		return err
	}
	if err := refuses(ctx, store, key, second.Version, "to replace a version that is no more"); err != nil {
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

// exchange replaces a version and returns what is there now.
func exchange(ctx context.Context, store Store, key, replaces string) (Object, error) {
	text := probeText()
	if err := store.Put(ctx, key, text, replaces); err != nil {
		return Object{}, fmt.Errorf("put where %q is: %w", replaces, err)
	}
	now, err := store.Get(ctx, key)
	switch {
	case err != nil:
		return Object{}, fmt.Errorf("get what was put: %w", err)
	case string(now.Body) != string(text):
		return Object{}, fmt.Errorf("get does not return what was put but %.64q", now.Body)
	case now.Version == "" || now.Version == replaces:
		return Object{}, fmt.Errorf("what was put where %q was has the version %q", replaces, now.Version)
	}
	return now, nil
}

// refuses expects the store to refuse a write on that condition.
func refuses(ctx context.Context, store Store, key, replaces, what string) error {
	err := store.Put(ctx, key, probeText(), replaces)
	switch {
	case err == nil:
		return fmt.Errorf("it was asked %s, and did: %w", what, ErrUnconditional)
	case !errors.Is(err, ErrPrecondition):
		return fmt.Errorf("it was asked %s, and failed otherwise than with ErrPrecondition: %w", what, err)
	}
	return nil
}

// race has several replace one version, and expects one to succeed. It returns what is there then.
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
			return Object{}, fmt.Errorf("put beside others: %w", err)
		}
	}
	if written > 1 {
		return Object{}, fmt.Errorf("%d of %d writes replaced the same version: %w", written, writers, ErrUnconditional)
	}
	// None at all is not the store's refusal of its conditions: S3 may answer all of them that there is a conflict.
	now, err := store.Get(ctx, key)
	if err != nil {
		return Object{}, fmt.Errorf("get what was put: %w", err)
	}
	return now, nil
}
