// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"context"
	"errors"
)

// A Store is a bucket with conditional writes: what [New] needs of Amazon S3 and stores with its interface, Google Cloud
// Storage or Azure Blob Storage. The package comment shows a Store on the client of S3, in thirty lines. Its methods may be
// called concurrently, and return when ctx is done.
type Store interface {
	// Get returns the current object of that key, not a cached one. The error wraps [ErrNotFound] if there is none.
	Get(ctx context.Context, key string) (Object, error)

	// Put makes body the object of that key, if the present object has the version replaces or, with the empty version, if
	// there is no object. Otherwise the error wraps [ErrPrecondition]: nothing was written, and nothing will be. With S3,
	// the condition is If-Match or If-None-Match: *, and the refusals are 412, 409 (a concurrent write) and 404 (no object).
	//
	// Every other error means that body may have been written. Put must therefore send the write once: a client that resends
	// it after the response was lost is refused because of its own write, and takes that for the write of another client.
	Put(ctx context.Context, key string, body []byte, replaces string) error
}

// An Object is what [Store.Get] returns.
type Object struct {
	_ struct{}

	Body []byte

	// Version is what the conditions of the store compare: the ETag with S3 and Azure, the generation with Google Cloud
	// Storage. It is not empty. Two different bodies have different versions; two writes of the same body may have the same
	// version.
	Version string
}

// Errors of a [Store].
var (
	// ErrNotFound: there is no such object. [Guard.Get] also returns it for an object that was deleted through the guard.
	ErrNotFound = errors.New("object not found")

	// ErrPrecondition: the condition of the Put does not hold, and nothing was written.
	ErrPrecondition = errors.New("the condition of the write does not hold: the object is not the version to replace")
)

// Errors of a [Guard], for errors.Is, besides [fencing.ErrStale], [fencing.ErrOtherHistory] and [fencing.ErrInvalid].
var (
	// ErrUncertain: the write was sent and its response was lost; it may have succeeded, and it may still arrive. Read
	// before you write again, or write only what may be written twice; the same token is admitted in either case.
	ErrUncertain = errors.New("the outcome is unknown: the object was written, or will be, or neither")

	// ErrNoToken: the object was not written through a guard, so it has no token to compare with. [Guard.Reset] gives it
	// one.
	ErrNoToken = errors.New("the object has no token: it was not written through a guard; Reset gives it one")
)
