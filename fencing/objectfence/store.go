// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"context"
	"errors"
)

// A Store is a bucket with conditional writes: what [New] needs of Amazon S3 and those that speak like it, Google Cloud
// Storage or Azure Blob Storage. The example of the package shows one on the client of S3, in thirty lines. Its methods
// may be called concurrently, and return when ctx is done.
type Store interface {
	// Get returns the object of that key as it is now, not as a cache remembers it. The error wraps [ErrNotFound] if
	// there is none.
	Get(ctx context.Context, key string) (Object, error)

	// Put makes body the object of that key, if the one that is there has the version replaces; with the empty version,
	// if none is there. Otherwise the error wraps [ErrPrecondition]: nothing was written, and nothing will be. With S3,
	// that is If-Match or If-None-Match: * and the answers 412, 409 (a write beside this one) and 404 (none is there).
	//
	// Every other error means that body may have been written. For the same reason Put sends once: a client that sends
	// again after an answer was lost finds its own write in the way, and calls it somebody else's.
	Put(ctx context.Context, key string, body []byte, replaces string) error
}

// An Object is what [Store.Get] returns.
type Object struct {
	_ struct{}

	Body []byte

	// Version is what the conditions of the store compare: the ETag with S3 and Azure, the generation with Google Cloud
	// Storage. It is not empty. Two bodies have two versions; whether the same body, written twice, does is not asked.
	Version string
}

// What a [Store] says by its errors.
var (
	// ErrNotFound: there is no such object. [Guard.Get] says it of one that was deleted through the guard, too.
	ErrNotFound = errors.New("there is no such object")

	// ErrPrecondition: the condition of the Put does not hold, and nothing was written.
	ErrPrecondition = errors.New("the object is not the one to be replaced")
)

// What errors.Is finds in an error of a [Guard], besides [fencing.ErrStale] and [fencing.ErrInvalid].
var (
	// ErrUncertain: the write was sent and its answer is not known; it may be there, and it may still arrive. Read before
	// you write again, or write what may be written twice; the same token is admitted in either case.
	ErrUncertain = errors.New("the outcome is unknown: the object was written, or will be, or not")

	// ErrNoToken: the object was not written through a guard, so nobody knows who may write it. [Guard.Reset] takes it
	// into the guard's care.
	ErrNoToken = errors.New("the object has no token: it was not written through a guard; Reset gives it one")
)
