// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// A deletions deletes the nodes of a session that are no longer wanted, and ends the grants on those that are lost. It is safe
// for concurrent use.
type deletions struct {
	*sender

	mu       sync.Mutex               // guards what follows
	held     []*nodes.Node            // due, and no worker deletes them yet; something was granted on them
	others   []*nodes.Node            // the same of nodes on which nothing was
	heldLast bool                     // the node that a worker took last was of held
	unknown  map[string][]*nodes.Node // the same of others whose path is unknown, by their parents
	searched map[string]bool          // the parents below which a worker searches
	workers  int
}

// DeleteSoon makes the owner delete the node.
func (d *deletions) DeleteSoon(p *nodes.Node) {
	d.Nodes.DeleteSoon(p)
	d.alarm.Ring()
}

// startDueDeletions starts the deletion of the nodes that are due. Up to MaxInFlight workers delete them, so that a node that a
// server does not delete, or that has to be searched for, delays no other one. It returns how long the owner may sleep.
func (d *deletions) startDueDeletions(now time.Time) time.Duration {
	timeout := d.Timeout()
	if !d.IsServed() {
		return timeout
	}
	held, others, wait := d.Nodes.TakeDue(now)
	d.start(held, others)
	return min(timeout, wait)
}

// start makes workers delete the nodes.
func (d *deletions) start(held, others []*nodes.Node) {
	for range d.enqueue(held, others) {
		if d.spawn(d.work) != nil {
			return // over: its nodes go with it
		}
	}
}

// enqueue adds the nodes to those that workers delete, and returns how many more workers are to be started.
func (d *deletions) enqueue(held, others []*nodes.Node) (more int) {
	if len(held)+len(others) == 0 {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = append(d.held, held...)
	for _, p := range others {
		if p.Path != "" {
			d.others = append(d.others, p)
			continue
		}
		if d.unknown == nil {
			d.unknown, d.searched = make(map[string][]*nodes.Node), make(map[string]bool)
		}
		d.unknown[p.Parent] = append(d.unknown[p.Parent], p)
	}
	more = min(len(d.held)+len(d.others)+len(d.unknown), MaxInFlight-d.workers)
	d.workers += more
	return more
}

// work deletes nodes until no more are due.
func (d *deletions) work() {
	for {
		step := d.next()
		if step == nil {
			return
		}
		ctx, cancel := context.WithTimeout(d.ctx, d.Timeout())
		step(ctx)
		cancel()
	}
}

// next returns the next step of a worker, nil if the worker is to end. A search takes several round trips: it finds all nodes below
// one parent, and begins when no other deletion is left, and no other search below that parent.
func (d *deletions) next() func(context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.takeKnown(); p != nil {
		return func(ctx context.Context) { d.deleteKnown(ctx, p) }
	}
	for parent, below := range d.unknown {
		if d.searched[parent] {
			continue
		}
		delete(d.unknown, parent)
		d.searched[parent] = true
		return func(ctx context.Context) { d.start(nil, d.search(ctx, parent, below)) }
	}
	d.workers--
	return nil
}

// takeKnown takes a node whose path is known, nil if there is none. A client that held a thousand locks delays a queue in which it only
// waited as little as the reverse. The caller holds mu.
func (d *deletions) takeKnown() *nodes.Node {
	from := &d.others
	if len(d.others) == 0 || !d.heldLast && len(d.held) > 0 {
		from = &d.held
	}
	if len(*from) == 0 {
		return nil
	}
	d.heldLast = from == &d.held
	p := (*from)[0]
	(*from)[0], *from = nil, (*from)[1:]
	return p
}

// DeleteLater schedules the deletion of a node whose deadline has passed, T/4 from now. The
// session may still live, and the holder's work needs time to stop. EndGrace ends the wait.
func (d *deletions) DeleteLater(p *nodes.Node) {
	d.Nodes.DeleteLater(p, time.Now().Add(d.Timeout()/4))
	d.alarm.Ring()
}

// EndGrace makes the owner delete the node immediately, if its deletion is scheduled. The
// caller reports with it that the holder's work has stopped.
func (d *deletions) EndGrace(p *nodes.Node) {
	d.Nodes.EndGrace(p)
	d.alarm.Ring()
}

// deleteKnown deletes one node whose path is known.
func (d *deletions) deleteKnown(ctx context.Context, p *nodes.Node) {
	if _, err := d.Delete(ctx, p, Ordinary); err != nil {
		d.postpone(p, err)
	}
}

// search searches for nodes below one parent, and returns those that exist.
func (d *deletions) search(ctx context.Context, parent string, below []*nodes.Node) (known []*nodes.Node) {
	_, detached := d.Served()
	paths, err := d.config.Find(ctx, parent, below)
	if errors.Is(err, context.DeadlineExceeded) && IsClosed(detached) {
		err = errSilent
	}
	d.mu.Lock()
	delete(d.searched, parent)
	d.mu.Unlock()
	for _, p := range below {
		path, found := paths[p.Nonce]
		switch {
		case found: // even if another one could not be read
			p.Path = path
			d.Nodes.Joined(p)
			known = append(known, p)
		case err != nil:
			d.postpone(p, err)
		default:
			d.Nodes.MarkGone(p)
		}
	}
	return known
}

// Delete deletes the node. existed is false if the node did not exist before the call.
//
// If Delete fails, the node stays outstanding, and the caller leaves its deletion to the
// owner.
func (d *deletions) Delete(ctx context.Context, p *nodes.Node, as Role) (existed bool, err error) {
	existed, _, _, err = d.DeleteAnd(ctx, p, as, nil)
	return existed, err
}

// DeleteAnd is Delete, in one transaction with a write of another node. written is the Stat of that node after the
// transaction. If the server refuses the write, or does not answer, DeleteAnd deletes the node alone, and written is nil;
// refused is the server's error.
func (d *deletions) DeleteAnd(ctx context.Context, p *nodes.Node, as Role, also *zk.SetDataRequest) (existed bool, written *zk.Stat, refused, err error) {
	tried := false
	for {
		if d.Nodes.IsUnsure(p) {
			found, err := d.stillExists(ctx, p)
			if err != nil {
				return tried, nil, refused, err
			}
			if !found {
				return tried, nil, refused, nil
			}
		}
		written, err := d.deleteOnce(ctx, p, as, also)
		d.Nodes.MarkUnsure(p, OutcomeOf(err) == Unknown)
		if also != nil {
			also = nil
			if beside := (*besideError)(nil); errors.As(err, &beside) {
				refused = beside.error
				continue
			}
		}
		switch over := d.Ended(); {
		case err == nil:
			d.Nodes.MarkGone(p)
			return true, written, refused, nil
		case errors.Is(err, zk.ErrNoNode), p.Kind == nodes.Lease && errors.Is(err, zk.ErrBadVersion):
			d.Nodes.MarkGone(p) // or a lease of another client, which has written it
			// An earlier attempt that was not answered has deleted it.
			return tried, nil, refused, nil
		case errors.Is(over, ErrExpired):
			return true, nil, refused, nil // the node was deleted with the session
		case over != nil:
			return tried, nil, refused, d.Fail("delete", p.Path, over)
		case ctx.Err() != nil || !d.mayRepeat(err):
			return tried, nil, refused, d.Fail("delete", p.Path, err)
		}
		tried = true
	}
}

// stillExists reports whether a named node exists after a deletion that was not answered. If
// that deletion was carried out, another session can have a node of that name by now.
func (d *deletions) stillExists(ctx context.Context, p *nodes.Node) (bool, error) {
	paths, err := d.config.Find(ctx, p.Parent, []*nodes.Node{p})
	if _, found := paths[p.Nonce]; err != nil || found {
		return found, err
	}
	d.Nodes.MarkGone(p)
	return false, nil
}

// deleteOnce sends one request to delete the node, alone or with the writes of other callers.
func (d *deletions) deleteOnce(ctx context.Context, p *nodes.Node, as Role, also *zk.SetDataRequest) (written *zk.Stat, err error) {
	if second, found := d.Nodes.Second(p); found {
		return nil, d.deleteBoth(ctx, p, second, as)
	}
	ops := []any{&zk.DeleteRequest{Path: p.Path, Version: p.Kind.DeleteVersion()}}
	if also != nil {
		ops = append(ops, also)
	}
	each, err := d.write(ctx, p, as, ops)
	switch {
	case len(each) != 2:
		return nil, err
	case err == nil:
		return each[1].Stat, nil
	case each[0].Error == nil && each[1].Error != nil:
		return nil, &besideError{err}
	}
	return nil, err
}

// write carries out the operations on the node. It waits for the answer on the caller's goroutine, unless ctx ends within T/2: a
// slow server may take nearly T/4 for the group before, and as long again. It always waits for the deletion of a named node: a
// request that outlives its call could hit a later node of that name.
func (d *deletions) write(ctx context.Context, p *nodes.Node, as Role, ops []any) ([]zk.MultiResponse, error) {
	write := d.WriteGrouped
	if deadline, ok := ctx.Deadline(); ok && p.Kind != nodes.Named && time.Until(deadline) < d.Timeout()/2 {
		write = d.WriteApart
	}
	return write(ctx, as, &Write{Queue: p.Parent, Operations: func() []any { return ops }})
}

// A besideError is the error of the write in a transaction that deletes a node and writes another one: nothing was changed.
type besideError struct{ error }

func (e *besideError) Unwrap() error { return e.error }

// Discard deletes the node, which its caller no longer wants. It waits for the deletion
// while a server serves the session, for at most limit. The owner does the rest.
func (d *deletions) Discard(p *nodes.Node, limit time.Duration) {
	served, detached := d.Served()
	known := d.Nodes.BeginDelete(p)
	if !known || !served {
		d.DeleteSoon(p)
	}
	if !served {
		return
	}
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	if known {
		err := d.spawn(func() {
			err := d.deleteAlone(ctx, p)
			if err == nil || errors.Is(err, zk.ErrNoNode) || p.Kind == nodes.Lease && errors.Is(err, zk.ErrBadVersion) {
				d.Nodes.MarkGone(p)
				return
			}
			d.postpone(p, err)
			cancel() // the owner retries, and no caller waits for it
		})
		if err != nil {
			return // over: its nodes go with it
		}
	}
	select {
	case <-p.Gone():
	case <-detached:
	case <-ctx.Done():
	}
}

// deleteAlone sends one request to delete the node, with no write of another caller, or deletes it with its second one.
func (d *deletions) deleteAlone(ctx context.Context, p *nodes.Node) error {
	if second, found := d.Nodes.Second(p); found {
		return d.deleteBoth(ctx, p, second, Ordinary)
	}
	_, err := Call(ctx, d, func(conn *zk.Conn) (struct{}, error) { return struct{}{}, conn.Delete(p.Path, p.Kind.DeleteVersion()) })
	return err
}

// postpone makes the owner delete the node after a failed deletion. A server that answered
// with an error of any kind may keep doing so: the owner then backs off, for this node
// alone.
func (d *deletions) postpone(p *nodes.Node, err error) {
	backOff := errors.Is(err, errThrottled) || !Retryable(err) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
	if !d.Nodes.Postpone(p, backOff, d.Timeout(), time.Now()) {
		return
	}
	d.events.Undeleted(p, err)
	d.alarm.Ring()
}
