// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

var errTODO = errors.New("not implemented yet")

// A Replica carries out the lease protocol for one process, over one client. Replicas
// share no state but the nodes: any of them serves any request. All methods are safe for
// concurrent use.
type Replica struct{}

// New returns a Replica. opts may be nil. It sends no request.
func New(client *recipes.Client, opts *Options) (*Replica, error) { return &Replica{}, nil }

// Drain ends all polls with a *WaitingError, those that wait and those that follow: their
// callers ask another replica.
func (r *Replica) Drain() {}

// Close waits for the goroutines of the replica, after Drain. It deletes no lease. It does
// not close the client.
func (r *Replica) Close() {}

// Acquire asks for a lease. received is when the caller's request was received.
//
// It waits for min(req.Wait, 20 s) at most. If wait time is left then, the error is a
// *WaitingError, and the caller asks again with the same RequestID within 30 s.
func (r *Replica) Acquire(ctx context.Context, received time.Time, req Request) (Grant, error) {
	return Grant{}, errTODO
}

// Renew extends a lease: it is valid for at least ttl from the sending of the request.
func (r *Replica) Renew(ctx context.Context, received time.Time, t Ticket, ttl time.Duration) (Grant, error) {
	return Grant{}, errTODO
}

// Release ends a lease.
func (r *Replica) Release(ctx context.Context, t Ticket) error { return errTODO }

// ForceRelease ends the lease or the claim in front of a queue.
func (r *Replica) ForceRelease(ctx context.Context, f Force) (Forced, error) {
	return Forced{}, errTODO
}

// Status returns the contenders of a path, or ErrNotFound if there is none.
func (r *Replica) Status(ctx context.Context, path string) (Status, error) { return Status{}, errTODO }

// List returns the paths directly below parent that have contenders and whose last segment
// begins with prefix, in order: at most limit, those after the segment after. next is the
// value of after for the next page, empty if there is none.
func (r *Replica) List(ctx context.Context, parent, prefix string, limit int, after string) (page []Status, next string, err error) {
	return nil, "", errTODO
}

// Watch yields the status of a path, and again after each change of the front or of the
// queue. A path without contenders has a Status without Contenders.
func (r *Replica) Watch(ctx context.Context, path string) iter.Seq2[Status, error] {
	return func(func(Status, error) bool) {}
}
