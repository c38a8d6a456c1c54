// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Replica carries out the lease protocol for one process, over one client. Replicas
// share no state but the nodes: any of them serves any request. All methods are safe for
// concurrent use.
type Replica struct {
	client  *recipes.Client
	opts    Options
	queues  queues
	waiters *waiters
	watches watches
	lists   lists
	written written
	drained chan struct{} // closed by Drain
	drain   sync.Once     // guards closing drained
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// The range of TTLs.
const (
	MinTTL        = time.Second
	DefaultMaxTTL = time.Hour
)

// New returns a Replica. opts may be nil. It sends no request, unless Options.Sweep is set: then
// the replica joins the election of the sweeper.
func New(client *recipes.Client, opts *Options) (*Replica, error) {
	if opts == nil {
		opts = &Options{}
	}
	fail := func(err error) (*Replica, error) { return nil, &recipes.Error{Op: "new replica", Err: err} }
	switch {
	case client == nil:
		return fail(errors.New("client is nil"))
	case opts.MaxTTL != 0 && opts.MaxTTL < MinTTL:
		return fail(fmt.Errorf("longest TTL %v is below the minimum of %v", opts.MaxTTL, MinTTL))
	}
	r := &Replica{client: client, opts: *opts, drained: make(chan struct{})}
	r.opts.MaxTTL = cmp.Or(opts.MaxTTL, DefaultMaxTTL)
	if r.opts.Logger == nil {
		r.opts.Logger = slog.Default()
	}
	r.queues.client = client
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.waiters = newWaiters(r)
	if opts.Sweep != "" {
		r.running.Go(func() { r.sweep(opts.Sweep) })
	}
	return r, nil
}

// Drain ends all polls with a *WaitingError, those that wait and those that follow: their
// callers ask another replica. It does not wait for them.
func (r *Replica) Drain() { r.drain.Do(func() { close(r.drained) }) }

func (r *Replica) isDrained() bool {
	select {
	case <-r.drained:
		return true
	default:
		return false
	}
}

// Waiters returns the contenders with which calls of Acquire wait now, in no order. It sends no request.
func (r *Replica) Waiters() []Contender { return r.waiters.contenders() }

// Close calls Drain, and waits for the goroutines of the replica. It deletes no lease, and
// does not close the client. Calls that are in progress end as their contexts do.
func (r *Replica) Close() {
	r.Drain()
	r.cancel()
	r.waiters.close()
	r.watches.close()
	r.lists.close()
	r.running.Wait()
}

// bound returns a context for the requests of a call, which must be answered soon: if they are not, their outcome is unknown.
// It ends after the session timeout, or at the deadline of ctx, if that is sooner. It outlives a caller that has gone, and a
// deadline by lastWord, so that such a call still deletes what it has written.
func (r *Replica) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(r.client.SessionTimeout())
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
		if soon := time.Now().Add(lastWord); end.Before(soon) {
			end = soon
		}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// lastWord is how long a call may send requests after its deadline.
const lastWord = 500 * time.Millisecond

// attempts is how often a call begins again after another write overtook it.
const attempts = 3

// errAgain reports that a call must begin again with its read: another write overtook its own,
// or its outcome is unknown.
var errAgain = errors.New("overtaken by another write")

// again runs f in one session, and again while it returns errAgain. The bound is for all attempts together.
func (r *Replica) again(ctx context.Context, op, path string, f func(ctx context.Context, q *pathQueue, requests *Requests) error) error {
	fail := func(err error) error { return &recipes.Error{Op: op, Path: path, Err: err} }
	q, err := r.queues.get(path)
	if err != nil {
		return fail(err)
	}
	bounded, cancel := r.bound(ctx)
	defer cancel()
	for attempt := 0; ; attempt++ {
		requests, err := NewRequests(bounded, q.Queue)
		if err == nil {
			err = f(bounded, q, requests)
			if err == nil {
				return nil
			}
			if requests.Ended() != nil {
				err = fmt.Errorf("%w: %w", errAgain, err)
			}
		}
		if !errors.Is(err, errAgain) || attempt == attempts || bounded.Err() != nil {
			return fail(final(ctx.Err(), err))
		}
	}
}

// final adds ErrUncertain to the error of a call if the outcome may be unknown. gone is the error of the caller's context.
func final(gone, err error) error {
	again := errors.Is(err, errAgain) || errors.Is(err, recipes.ErrSessionExpired)
	late := errors.Is(err, context.DeadlineExceeded) && !errors.Is(gone, context.Canceled)
	if (again || late) && !errors.Is(err, ErrUncertain) {
		return fmt.Errorf("%w: %w", ErrUncertain, err)
	}
	return err
}

// write writes the record of a lease over the version in c, under a new id. It returns errAgain
// if the node has another version, is missing, or may have.
func (r *Replica) write(ctx context.Context, requests *Requests, c Contender, l Lease) (Contender, error) {
	if c.Version >= maxVersion {
		return c, ErrExhausted
	}
	l.Write = newID()
	written, err := requests.Write(ctx, c, l)
	switch {
	case err == nil:
		return written, nil
	case errors.Is(err, ErrUncertain):
		return r.resolve(ctx, requests, c.Name, l.Write, err)
	case errors.Is(err, zk.ErrBadVersion), errors.Is(err, zk.ErrNoNode):
		return c, fmt.Errorf("%w: %w", errAgain, err)
	}
	return c, err
}

// resolve determines the outcome of the write with that id, which was not answered. After the
// quorum's check, the read is as new as any outcome.
func (r *Replica) resolve(ctx context.Context, requests *Requests, name, write string, cause error) (Contender, error) {
	c, err := latest(ctx, requests, name)
	if err == nil && c.Lease != nil && c.Lease.Write == write {
		requests.Observe(c)
		return c, nil
	}
	return c, fmt.Errorf("%w: %w", errAgain, errors.Join(cause, err))
}

// latest reads a contender after a quorum has answered, so that no answer before is newer. Only
// this read proves that a node is missing.
func latest(ctx context.Context, requests *Requests, name string) (Contender, error) {
	if err := requests.Check(ctx, name); err != nil {
		return Contender{}, err
	}
	return requests.Read(ctx, name)
}

// read is latest if the contender is missing on the server, or refused by refuse there: a
// server that lags must not end a lease.
func read(ctx context.Context, requests *Requests, name string, refuse func(Contender) error) (Contender, error) {
	c, err := requests.Read(ctx, name)
	switch {
	case err == nil && refuse(c) == nil:
		return c, nil
	case err == nil, errors.Is(err, zk.ErrNoNode):
		c, err = latest(ctx, requests, name)
	}
	if err == nil {
		err = refuse(c)
	}
	return c, err
}

// maxVersion is where the version of a node comes near its end.
const maxVersion = 1<<31 - 1<<20

// audit reports an action.
func (r *Replica) audit(e Event) {
	if r.opts.Audit == nil {
		return
	}
	e.Time = time.Now()
	r.opts.Audit(e)
}
