// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// List returns the paths directly below parent that have contenders and whose last segment
// begins with prefix, in order: at most limit, those after the segment after. next is the
// value of after for the next page, empty if there is none. A page that takes long, or much
// memory, ends early, and can be empty: paths without contenders also take time. Of contenders
// behind the front it has no metadata and no requests. Equal calls that come while others
// run share a page, which they must not change; it is read after the call.
func (r *Replica) List(ctx context.Context, parent, prefix string, limit int, after string) (page []Status, next string, err error) {
	l := r.lists.join(r, listArguments{parent, prefix, max(limit, 1), after})
	defer r.lists.leave(l)
	select {
	case <-l.done:
		return l.page, l.next, l.err
	case <-ctx.Done():
		return nil, "", &recipes.Error{Op: "list", Path: parent, Err: context.Cause(ctx)}
	}
}

type listArguments struct {
	parent, prefix string
	limit          int
	after          string
}

// A list is one page that is read for all calls that asked for it before.
type list struct {
	listArguments
	ctx    context.Context //nolint:containedctx // of the read, which all of its users share
	cancel context.CancelFunc
	users  int // guarded by lists.mu

	done chan struct{} // closed when what follows is valid
	page []Status
	next string
	err  error
}

// listers bounds the pages of one parent that are read at the same time: however many calls there are, they cost other
// tenants no more than so many requests in flight.
const listers = 4

// lists are the pages that calls of List wait for.
type lists struct {
	mu      sync.Mutex // guards what follows
	parents map[string]*parentLists
	closed  bool
}

// parentLists are the lists of one parent.
type parentLists struct {
	waiting []*list // for a goroutine to read them, the oldest first
	reading int     // goroutines
}

// join adds a user of the page with these arguments whose read has not begun.
func (ls *lists) join(r *Replica, arguments listArguments) *list {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	p := ls.parents[arguments.parent]
	if p == nil {
		p = &parentLists{}
		if ls.parents == nil {
			ls.parents = make(map[string]*parentLists)
		}
		ls.parents[arguments.parent] = p
	}
	for _, l := range p.waiting {
		if l.listArguments == arguments {
			l.users++
			return l
		}
	}
	l := &list{listArguments: arguments, users: 1, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(r.ctx)
	if ls.closed {
		l.err = context.Cause(r.ctx)
		close(l.done)
		return l
	}
	p.waiting = append(p.waiting, l)
	if p.reading < listers {
		p.reading++
		r.running.Go(func() { r.readLists(p, arguments.parent) })
	}
	return l
}

// leave removes a user. The last one ends the read.
func (ls *lists) leave(l *list) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users > 0 {
		return
	}
	l.cancel()
	if p := ls.parents[l.parent]; p != nil {
		p.waiting = slices.DeleteFunc(p.waiting, func(other *list) bool { return other == l })
	}
}

// oldest removes and returns the page to read next, nil if there is none: then the goroutine that asks ends.
func (ls *lists) oldest(p *parentLists, parent string) *list {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if len(p.waiting) > 0 {
		l := p.waiting[0]
		p.waiting = p.waiting[1:]
		return l
	}
	if p.reading--; p.reading == 0 {
		delete(ls.parents, parent)
	}
	return nil
}

func (ls *lists) close() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.closed = true
}

// readLists reads the pages of a parent until none waits.
func (r *Replica) readLists(p *parentLists, parent string) {
	for l := r.lists.oldest(p, parent); l != nil; l = r.lists.oldest(p, parent) {
		l.page, l.next, l.err = r.list(l.ctx, l.listArguments)
		l.cancel()
		close(l.done)
	}
}

// list reads a page.
func (r *Replica) list(ctx context.Context, arguments listArguments) (page []Status, next string, err error) {
	parent := arguments.parent
	node, err := node.New(r.client, parent)
	if err != nil {
		return nil, "", &recipes.Error{Op: "list", Path: parent, Err: err}
	}
	keys, err := node.Children(ctx)
	if err != nil {
		return nil, "", err
	}
	slices.Sort(keys)
	began, last, size := time.Now(), "", 0
	for _, key := range keys {
		if key <= arguments.after || !strings.HasPrefix(key, arguments.prefix) {
			continue
		}
		if len(page) >= arguments.limit || size >= pageBytes || last != "" && time.Since(began) > listTime {
			return page, last, nil
		}
		s, err := r.status(ctx, parent+"/"+key)
		if err != nil {
			return nil, "", err
		}
		if len(s.Contenders) > 0 {
			page = append(page, s)
			size += trim(s.Contenders)
		}
		last = key
	}
	return page, "", nil
}

// listTime is well below the time that a caller waits for a page.
const listTime = 3 * time.Second

// pageBytes bounds what a page has of the contenders' records, before it ends: it is in memory until its callers have answered.
const pageBytes = 1 << 20

// trim drops what a page does not have of contenders, and returns the number of bytes that their other data have.
func trim(contenders []Contender) (size int) {
	for i, c := range contenders {
		size += len(c.Owner) + len(c.Host)
		switch {
		case c.Lease == nil:
		case i > 0:
			c.Lease.Metadata, c.Lease.Requests, c.Lease.Closed = nil, nil, nil
		default:
			for name, value := range c.Lease.Metadata {
				size += len(name) + len(value)
			}
			for _, request := range slices.Concat(c.Lease.Requests, c.Lease.Closed) {
				size += len(request)
			}
		}
	}
	return size
}
