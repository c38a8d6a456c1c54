// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Watch follows the status of one path. The Watches of a path share its requests. A Watch is
// not safe for concurrent use.
type Watch struct {
	watches *watches
	path    *watched
	changed <-chan struct{}
}

// Watch begins to follow a path. Close the Watch.
func (r *Replica) Watch(path string) *Watch {
	w, read := r.watches.join(r, path)
	return &Watch{&r.watches, w, read}
}

// Changed returns a channel that is closed when Status returns what it has not returned yet: at
// first, the status as it is after the call of Replica.Watch, and then each change of the front or
// of the queue.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Status returns the newest status, which the caller must not change. A path without contenders has
// a Status without Contenders. After an error there is no other status.
func (w *Watch) Status() (s Status, err error) {
	s, w.changed, err = w.watches.newest(w.path)
	return s, err
}

// Close ends the Watch.
func (w *Watch) Close() { w.watches.leave(w.path) }

// watches are the paths that are watched. One goroutine reads each.
type watches struct {
	missing atomic.Int64 // paths that have no node

	mu     sync.Mutex // guards what follows
	all    map[string]*watched
	closed bool
}

// A watched is a path that is watched.
type watched struct {
	path   string
	joined chan struct{} // capacity 1: a user wants a read that begins after it has joined
	cancel context.CancelFunc

	// Guarded by watches.mu.
	users   int
	status  Status
	err     error
	changed chan struct{} // closed when status or err has changed
	read    chan struct{} // closed when the read that begins next has ended
}

// join adds a user of a path, and returns a channel that is closed when a read that began after the call has ended.
func (ws *watches) join(r *Replica, path string) (*watched, <-chan struct{}) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.all[path]
	if ws.closed {
		w = &watched{path: path, cancel: func() {}, err: context.Cause(r.ctx), read: make(chan struct{})}
		close(w.read)
	}
	if w == nil {
		ctx, cancel := context.WithCancel(r.ctx)
		w = &watched{
			path: path, joined: make(chan struct{}, 1), cancel: cancel, changed: make(chan struct{}), read: make(chan struct{}),
		}
		if ws.all == nil {
			ws.all = make(map[string]*watched)
		}
		ws.all[path] = w
		r.running.Go(func() { r.follow(ctx, w) })
	}
	w.users++
	select {
	case w.joined <- struct{}{}:
	default:
	}
	return w, w.read
}

// close ends all reads, and refuses calls that follow.
func (ws *watches) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	for _, w := range ws.all {
		w.cancel()
	}
}

// leave removes a user. The last one ends the reads.
func (ws *watches) leave(w *watched) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.users--; w.users == 0 {
		ws.forget(w)
	}
}

// forget ends the reads of a path: the next call that watches it begins anew. The caller holds mu.
func (ws *watches) forget(w *watched) {
	w.cancel()
	if ws.all[w.path] == w {
		delete(ws.all, w.path)
	}
}

// newest returns what was read last, and a channel that is closed when it has changed.
func (ws *watches) newest(w *watched) (Status, <-chan struct{}, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return w.status, w.changed, w.err
}

// begin begins a read, and returns the channel to close when it has ended.
func (ws *watches) begin(w *watched) chan struct{} {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	select {
	case <-w.joined: // before the read
	default:
	}
	read := w.read
	w.read = make(chan struct{})
	return read
}

// end ends a read. After an error there is no other.
func (ws *watches) end(w *watched, read chan struct{}, s Status, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if err != nil || !reflect.DeepEqual(w.status, s) {
		w.status, w.err = s, err
		close(w.changed)
		w.changed = make(chan struct{})
	}
	close(read)
	if err != nil {
		close(w.read) // of users that have joined meanwhile
		ws.forget(w)
	}
}

// follow reads a path until ctx is done, or a read fails.
func (r *Replica) follow(ctx context.Context, w *watched) {
	for {
		read := r.watches.begin(w)
		s, changed, err := r.watch(ctx, w)
		r.watches.end(w, read, s, err)
		if err != nil || !changed() {
			return
		}
	}
}

// watch returns the status, and a function that waits until it has changed. That function
// reports false if ctx is done.
func (r *Replica) watch(ctx context.Context, w *watched) (Status, func() bool, error) {
	path := w.path
	q, err := r.queues.get(path)
	if err != nil {
		return Status{Path: path}, nil, &recipes.Error{Op: "watch", Path: path, Err: err}
	}
	requests, err := NewRequests(ctx, q.Queue)
	if err != nil {
		return Status{Path: path}, nil, err
	}
	queue, err := requests.WatchQueue(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		r.watches.missing.Add(1)
		return Status{Path: path}, func() bool { return r.awaitQueue(ctx, requests, w) }, nil
	}
	if err != nil {
		return Status{Path: path}, nil, err
	}
	names, err := requests.Names(ctx)
	if err != nil {
		return Status{Path: path}, nil, err
	}
	var front <-chan struct{} // never, if the queue is empty or its front is about to change
	if len(names) > 0 {
		if watch, err := requests.Watch(ctx, names[0]); err == nil {
			front = watch.Fired()
		}
	}
	s, err := r.status(ctx, path) // after the watches are set: a later change fires them
	return s, func() bool {
		select {
		case <-queue:
		case <-front:
		case <-w.joined:
		case <-ctx.Done():
			return false
		}
		// Renewals and joins of a busy queue are not each worth a status, nor are users that come together.
		return r.pause(ctx, watchPause)
	}, err
}

// awaitQueue waits until the queue's node exists, another user has joined, or the session is over. It reports false if ctx
// is done. It asks at intervals: the keys that callers may watch are not bounded, and watches of those that no caller ever locks
// would accumulate in the session.
func (r *Replica) awaitQueue(ctx context.Context, requests *Requests, w *watched) bool {
	defer r.watches.missing.Add(-1)
	for {
		paths := r.watches.missing.Load() // this one too
		select {
		case <-time.After(max(missingPause, time.Duration(paths)*missingShare)):
		case <-w.joined:
			return r.pause(ctx, watchPause)
		case <-ctx.Done():
			return false
		}
		if _, err := requests.WatchQueue(ctx); !errors.Is(err, zk.ErrNoNode) {
			return ctx.Err() == nil
		}
	}
}

const (
	// watchPause is the least time between two statuses of one path.
	watchPause = 100 * time.Millisecond
	// missingPause is the least time between two requests for a queue that is missing, and missingShare what each of
	// these queues adds to it: however many there are, they cost 500 requests a second.
	missingPause = time.Second
	missingShare = 2 * time.Millisecond
)
