// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"sync"
	"sync/atomic"

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
