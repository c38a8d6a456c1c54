// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// maxQueues bounds the queues that a replica remembers: a queue that it knows to be empty
// costs one request to acquire.
const maxQueues = 1 << 14

// A pathQueue is a path that the replica has served.
type pathQueue struct {
	*queue.Queue
	empty     atomic.Bool // it was, when last seen
	contended atomic.Bool // it had more than one contender, when last seen
	seen      atomic.Pointer[view]
	line      line
	acquiring atomic.Int64 // calls of Acquire
}

// acquired notes the end of an acquisition. The last one forgets the names of a long queue, which may never be used again.
func (q *pathQueue) acquired() {
	if q.acquiring.Add(-1) == 0 {
		q.seen.Store(nil)
		q.line.forgetLong()
	}
}

// A view is a listing of a long queue, for callers that do not need the newest.
type view struct {
	names []string // the front first
	at    time.Time
}

// A view of at least longQueue names is used for viewAge: with many waiters on one key, each that
// joins and each that receives its position would cost a listing otherwise.
const viewAge = time.Second

// A lister is a way to list a queue.
type lister string

const (
	newest lister = "newest" // Requests.Names
	soon   lister = "soon"   // Requests.NamesSoon
	recent lister = "recent" // soon, or what another call has listed, viewAge before at most
)

// A listing is a queue as an acquisition has listed it.
type listing struct {
	names []string // the front first
	by    lister
}

// list lists the queue, the front first.
func (q *pathQueue) list(ctx context.Context, requests *Requests, by lister) (names []string, err error) {
	if v := q.seen.Load(); by == recent && v != nil && time.Since(v.at) < viewAge {
		return v.names, nil
	}
	if by == newest {
		names, err = requests.Names(ctx)
	} else {
		names, err = requests.NamesSoon(ctx)
	}
	if err != nil {
		return nil, err
	}
	q.line.listed(names)
	q.seen.Store(nil)
	if len(names) >= longQueue {
		q.seen.Store(&view{names, time.Now()})
	}
	return names, nil
}

// queues are the queues of a replica, by path.
type queues struct {
	client *recipes.Client

	mu  sync.Mutex // guards all
	all map[string]*pathQueue
}

func (qs *queues) get(path string) (*pathQueue, error) {
	qs.mu.Lock()
	q := qs.all[path]
	qs.mu.Unlock()
	if q != nil {
		return q, nil
	}
	made, err := queue.New(qs.client, path, nil)
	if err != nil {
		return nil, err
	}
	qs.mu.Lock()
	defer qs.mu.Unlock()
	if q := qs.all[path]; q != nil {
		return q, nil
	}
	if qs.all == nil {
		qs.all = make(map[string]*pathQueue)
	}
	for other := range qs.all {
		if len(qs.all) < maxQueues {
			break
		}
		delete(qs.all, other) // any: it is only knowledge
	}
	q = &pathQueue{Queue: made}
	qs.all[path] = q
	return q, nil
}
