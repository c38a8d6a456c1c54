// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Guard admits writes to the objects of one store, each of which contains its own fence. The resource's name is the
// object's key, unchanged. A Guard keeps nothing in memory: any number of guards, in any number of processes, act as one.
// All methods may be called concurrently.
type Guard struct {
	store   Store
	history string
}

// Options are the options of a Guard. The zero value of a field means its default.
type Options struct {
	_ struct{}

	// History is the id of the ensemble's history in which the tokens were granted, as Client.History of package recipes
	// returns it. The guard stores it in the object, beside the token, and refuses tokens of another history with a
	// *fencing.HistoryError: an ensemble that was wiped grants the same tokens again. An object without a history adopts
	// the history of the next write. Default: histories are neither checked nor changed.
	History string
}

// New returns a guard of the objects in store. opts may be nil. New does not contact the store: call [Probe] once for each
// store, to find out whether it honours the conditions on which the guarantee depends.
func New(store Store, opts *Options) (*Guard, error) {
	if opts == nil {
		opts = &Options{}
	}
	if store == nil {
		return nil, errors.New("objectfence: new guard: the store is nil")
	}
	if opts.History != "" {
		if err := fencing.CheckHistory(opts.History); err != nil {
			return nil, fmt.Errorf("objectfence: new guard: %w", err)
		}
	}
	return &Guard{store: store, history: opts.History}, nil
}

// Put makes body the object's body, whatever it was. It is [Guard.Update] with a function that ignores its argument.
func (g *Guard) Put(ctx context.Context, key string, token fencing.Token, body []byte) error {
	return g.write(ctx, "put", key, token, func(envelope) (envelope, error) {
		return envelope{body: body}, nil
	})
}

// Update calls change with the object's body and writes what it returns, if the object is still the version that change was
// called for; otherwise it begins again with the new version. change may therefore run several times, and its side effects
// occur each time. Its argument is nil if there is no object, and must not be modified. Update returns when ctx is done.
//
// When a newer token has been admitted, the error is a [*fencing.StaleError]; when the object has another history, a
// [*fencing.HistoryError]. An error of change is returned, wrapped. In these cases, and after every other error that does
// not wrap [ErrUncertain], this call has written nothing and its token has not been admitted.
func (g *Guard) Update(
	ctx context.Context, key string, token fencing.Token, change func(body []byte) ([]byte, error),
) error {
	if change == nil {
		return fmt.Errorf("objectfence: update %.64q with token %d: the function is nil", key, int64(token))
	}
	return g.write(ctx, "update", key, token, func(current envelope) (envelope, error) {
		body, err := change(current.body)
		return envelope{body: body}, err
	})
}

// Delete removes the body, as a write with token. The object remains, a few lines with the token in them, because it
// contains the fence: if an object is deleted in the store itself, its fence is lost, and every token is admitted. That is
// safe under the condition of [fencing.Gate.Reset]; it is then the way to remove what Delete leaves.
func (g *Guard) Delete(ctx context.Context, key string, token fencing.Token) error {
	return g.write(ctx, "delete", key, token, func(envelope) (envelope, error) {
		return envelope{deleted: true}, nil
	})
}

// write replaces the object by what next returns for it, if token is admitted.
func (g *Guard) write(
	ctx context.Context, operation, key string, token fencing.Token, next func(current envelope) (envelope, error),
) error {
	err := fencing.CheckResource(key)
	if err == nil && !token.Valid() {
		err = fencing.ErrInvalid
	}
	if err == nil {
		err = g.replace(ctx, key, func(current envelope, fenced bool) (envelope, error) {
			if !fenced {
				return envelope{}, ErrNoToken
			}
			history, err := fencing.CheckInHistory(token, current.newest, g.history, current.history)
			if err != nil {
				return envelope{}, err
			}
			e, err := next(current)
			e.newest, e.history = token, history
			return e, err
		})
	}
	if err != nil {
		return fmt.Errorf("objectfence: %s %.512q with token %d: %w", operation, key, int64(token), err)
	}
	return nil
}

// Get returns the object's body. The error wraps [ErrNotFound] if there is no object or it was deleted, and [ErrNoToken] if
// the object was not written through a guard.
func (g *Guard) Get(ctx context.Context, key string) ([]byte, error) {
	e, err := g.inspect(ctx, key)
	if err == nil && e.deleted {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("objectfence: get %.512q: %w", key, err)
	}
	return e.body, nil
}

// Newest returns the newest token admitted for the object, or zero if there is none. The result may be out of date when it
// returns: use it for reports. To decide, write.
func (g *Guard) Newest(ctx context.Context, key string) (fencing.Token, error) {
	e, err := g.inspect(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("objectfence: newest token of %.512q: %w", key, err)
	}
	return e.newest, nil
}

func (g *Guard) inspect(ctx context.Context, key string) (envelope, error) {
	if err := fencing.CheckResource(key); err != nil {
		return envelope{}, err
	}
	at, err := g.read(ctx, key)
	if err == nil && !at.fenced {
		err = ErrNoToken
	}
	return at.envelope, err
}

// Reset makes newest the newest token of the object, whatever it was, and the history of the guard the object's; a
// guard without a history clears it. Zero admits any token. The body remains.
//
// Reset is for an operator whose ensemble was restored, wiped or replaced, so that its tokens are no longer ordered with
// those that the object has admitted. It is safe under the condition of [fencing.Gate.Reset]: no holder of an earlier grant
// can still write. An error with [ErrUncertain] means that the reset may have happened; it is safe to repeat it.
//
// Reset also gives a token to an object that was written before there was a guard, or without one: until then, all writes to
// it are refused. Pass the token of the current holder of the lock, which is the newest grant.
func (g *Guard) Reset(ctx context.Context, key string, newest fencing.Token) error {
	err := fencing.CheckResource(key)
	if err == nil && newest < 0 {
		err = fencing.ErrInvalid
	}
	if err == nil {
		err = g.replace(ctx, key, func(current envelope, _ bool) (envelope, error) {
			current.newest, current.history = newest, g.history
			return current, nil
		})
	}
	if err != nil {
		return fmt.Errorf("objectfence: reset %.512q to token %d: %w", key, int64(newest), err)
	}
	return nil
}

// A state is an object as it was read. A missing object has the state of a deleted one, without a version.
type state struct {
	envelope

	version string
	fenced  bool // the object was written through a guard, or is missing
}

func (g *Guard) read(ctx context.Context, key string) (state, error) {
	object, err := g.store.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound):
		return state{envelope: envelope{deleted: true}, fenced: true}, nil
	case err != nil:
		return state{}, fmt.Errorf("get: %w", err)
	case object.Version == "":
		return state{}, errors.New("get: the store returned no version")
	}
	e, fenced := parse(object.Body)
	if !fenced {
		e = envelope{body: object.Body}
	}
	return state{e, object.Version, fenced}, nil
}

// A Put that was refused although the object still has the expected version is retried this often, with a back-off that
// begins with pause. S3 refuses in this way while another write of the key is in progress; if a store continues to refuse,
// the refusal has another reason.
const (
	refusals = 8
	pause    = 10 * time.Millisecond
)

// replace replaces the object by what next returns for it. It calls next again whenever another write has come between.
func (g *Guard) replace(
	ctx context.Context, key string, next func(current envelope, fenced bool) (envelope, error),
) error {
	var (
		write    = rand.Text()
		refused  string // the version that the last Put was to replace
		repeated int    // how many times in a row the version was that one
	)
	for attempt := 0; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		current, err := g.read(ctx, key)
		switch {
		case err != nil:
			return err
		case current.write == write:
			return nil // the client resent the write, and its first attempt had succeeded
		case attempt > 0 && current.version == refused:
			if repeated++; repeated == refusals {
				return fmt.Errorf("the store refuses to replace the version that it has, %q: %w", refused, ErrPrecondition)
			}
			if err := sleep(ctx, pause<<repeated); err != nil {
				return err
			}
		default:
			repeated = 0
		}
		e, err := next(current.envelope, current.fenced)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		e.write, refused = write, current.version
		err = g.store.Put(ctx, key, e.encode(), current.version)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrPrecondition) {
			return g.resolve(ctx, key, write, err)
		}
	}
}

// resolve returns nil if the object contains the name of the write, although its Put failed. Otherwise it returns failure as
// an unknown outcome: the write may still be in progress, or may have been replaced already.
func (g *Guard) resolve(ctx context.Context, key, write string, failure error) error {
	if current, err := g.read(ctx, key); err == nil && current.write == write {
		return nil
	}
	return fmt.Errorf("put: %w: %w", ErrUncertain, failure)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
