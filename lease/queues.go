// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// maxQueues bounds the queues that a replica remembers: a queue that it knows to be empty
// costs one request to acquire.
const maxQueues = 1 << 14

// A queue is a path that the replica has served.
type queue struct {
	*recipes.Queue
	empty     atomic.Bool // it was, when last seen
	contended atomic.Bool // it had more than one contender, when last seen
	seen      atomic.Pointer[view]
	line      line
}

// A view is a listing of a long queue, for callers that do not need the newest.
type view struct {
	names []string // the front first
	at    time.Time
}

// A view of at least longQueue names is used for viewAge: with many waiters on one key, each that
// joins and each that receives its position would cost a listing otherwise.
const (
	longQueue = 64
	viewAge   = time.Second
)

// saw records a listing, and returns its arguments.
func (q *queue) saw(names []string, err error) ([]string, error) {
	if err == nil {
		q.line.listed(names)
	}
	switch {
	case err != nil:
	case len(names) < longQueue:
		q.seen.Store(nil)
	default:
		q.seen.Store(&view{names, time.Now()})
	}
	return names, err
}

// A lister lists a queue, the front first.
type lister func(context.Context, *recipes.Requests) ([]string, error)

// newest is Requests.Names.
func (q *queue) newest(ctx context.Context, requests *recipes.Requests) ([]string, error) {
	return q.saw(requests.Names(ctx))
}

// soon is Requests.NamesSoon.
func (q *queue) soon(ctx context.Context, requests *recipes.Requests) ([]string, error) {
	return q.saw(requests.NamesSoon(ctx))
}

// recent is soon, or what another call has listed, viewAge before at most.
func (q *queue) recent(ctx context.Context, requests *recipes.Requests) ([]string, error) {
	if v := q.seen.Load(); v != nil && time.Since(v.at) < viewAge {
		return v.names, nil
	}
	return q.soon(ctx, requests)
}

// queues are the queues of a replica, by path.
type queues struct {
	client *recipes.Client

	mu  sync.Mutex // guards all
	all map[string]*queue
}

func (qs *queues) get(path string) (*queue, error) {
	qs.mu.Lock()
	q := qs.all[path]
	qs.mu.Unlock()
	if q != nil {
		return q, nil
	}
	made, err := recipes.NewQueue(qs.client, path, nil)
	if err != nil {
		return nil, err
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.all[path]; q != nil {
		return q, nil
	}
	if qs.all == nil {
		qs.all = make(map[string]*queue)
	}
	for other := range qs.all {
		if len(qs.all) < maxQueues {
			break
		}
		delete(qs.all, other) // any: it is only knowledge
	}
	q = &queue{Queue: made}
	qs.all[path] = q
	return q, nil
}
