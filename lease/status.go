// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// shown bounds the contenders in a Status: the cost of one must not grow with the queue.
const shown = 16

// Status returns the contenders of a path, or ErrNotFound if there is none. A lease that has
// expired and that no observer has deleted yet holds the lock. It costs one listing and one
// read for each contender that it returns.
func (r *Replica) Status(ctx context.Context, path string) (Status, error) {
	s, err := r.status(ctx, path)
	if err == nil && len(s.Contenders) == 0 {
		err = &recipes.Error{Op: "status", Path: path, Err: ErrNotFound}
	}
	return s, err
}

// status is Status for a path that may have no contender. It observes those that it returns.
func (r *Replica) status(ctx context.Context, path string) (Status, error) {
	s := Status{Path: path}
	q, err := r.queues.get(path)
	if err != nil {
		return s, &recipes.Error{Op: "status", Path: path, Err: err}
	}
	s.Contenders, s.More, err = q.FirstContenders(ctx, shown)
	for _, c := range s.Contenders {
		q.Observe(c)
	}
	return s, err
}

// List returns the paths directly below parent that have contenders and whose last segment
// begins with prefix, in order: at most limit, those after the segment after. next is the
// value of after for the next page, empty if there is none. A page that takes long ends early,
// and can be empty: paths without contenders also take time.
func (r *Replica) List(ctx context.Context, parent, prefix string, limit int, after string) (page []Status, next string, err error) {
	node, err := recipes.NewNode(r.client, parent)
	if err != nil {
		return nil, "", &recipes.Error{Op: "list", Path: parent, Err: err}
	}
	keys, err := node.Children(ctx)
	if err != nil {
		return nil, "", err
	}
	slices.Sort(keys)
	began, last := time.Now(), ""
	for _, key := range keys {
		if key <= after || !strings.HasPrefix(key, prefix) {
			continue
		}
		if len(page) >= max(limit, 1) || last != "" && time.Since(began) > listTime {
			return page, last, nil
		}
		s, err := r.status(ctx, parent+"/"+key)
		if err != nil {
			return nil, "", err
		}
		if len(s.Contenders) > 0 {
			page = append(page, s)
		}
		last = key
	}
	return page, "", nil
}

// listTime is well below the time that a caller waits for a page.
const listTime = 3 * time.Second

// Watch yields the status of a path, and again after each change of the front or of the
// queue; a slow consumer gets the newest. A path without contenders has a Status without
// Contenders. The sequence ends when ctx is done, or after an error.
func (r *Replica) Watch(ctx context.Context, path string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		for ctx.Err() == nil {
			s, changed, err := r.watch(ctx, path)
			if err != nil && ctx.Err() != nil || !yield(s, err) || err != nil {
				return
			}
			if !changed() {
				return
			}
		}
	}
}

// watch returns the status, and a function that waits until it has changed. That function
// reports false if ctx is done.
func (r *Replica) watch(ctx context.Context, path string) (Status, func() bool, error) {
	q, err := r.queues.get(path)
	if err != nil {
		return Status{Path: path}, nil, &recipes.Error{Op: "watch", Path: path, Err: err}
	}
	requests, err := q.Requests(ctx)
	if err != nil {
		return Status{Path: path}, nil, err
	}
	queue, err := requests.WatchQueue(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return Status{Path: path}, func() bool { return r.awaitQueue(ctx, requests) }, nil
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
		case <-ctx.Done():
			return false
		}
		// Renewals and joins of a busy queue are not each worth a status.
		timer := time.NewTimer(watchPause)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		}
	}, err
}

// awaitQueue waits until the queue's node exists, or the session is over. It reports false if ctx
// is done. It asks at intervals: the keys that callers may watch are not bounded, and watches of
// those that no caller ever locks would accumulate in the session.
func (r *Replica) awaitQueue(ctx context.Context, requests *recipes.Requests) bool {
	for ctx.Err() == nil {
		r.pause(ctx, missingPause)
		if _, err := requests.WatchQueue(ctx); !errors.Is(err, zk.ErrNoNode) {
			return ctx.Err() == nil
		}
	}
	return false
}

// missingPause is the time between two requests for a queue that is missing.
const missingPause = time.Second

// watchPause is the least time between two statuses of one Watch.
const watchPause = 100 * time.Millisecond
