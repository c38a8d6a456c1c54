// SPDX-License-Identifier: Apache-2.0

package api_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/service/internal/api"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
	"github.com/lockkeeper/lockkeeper/service/internal/history"
)

// A scripted Locks answers as a test says, and counts. It stands for the lease protocol where the outcome of the protocol
// is the test's input; the tests of package service use the real one.
type scripted struct {
	mu    sync.Mutex
	calls []string // guarded by mu

	grant   lease.Grant
	status  lease.Status
	err     error
	waiting chan struct{} // not nil: Acquire waits for its context, and a Watch has one status
	entered chan struct{} // receives when Acquire or Watch is called, if not nil
	last    lease.Request
	waiters []lease.Contender // guarded by mu
	forcing func()            // called by ForceRelease, if not nil
	others  int               // further locks that List returns, with the same contenders
	scraped func()            // the same for Waiters

	// called by List, if not nil; List returns its error
	listing func(ctx context.Context, parent string) error
}

func (s *scripted) called(name string) {
	s.mu.Lock()
	s.calls = append(s.calls, name)
	s.mu.Unlock()
	if s.entered != nil {
		s.entered <- struct{}{}
	}
}

func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func (s *scripted) contenders(now ...lease.Contender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Contenders = now
}

func (s *scripted) request() lease.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

func (s *scripted) Acquire(ctx context.Context, _ time.Time, req lease.Request) (lease.Grant, error) {
	s.mu.Lock()
	s.last = req
	s.mu.Unlock()
	s.called("acquire")
	if s.waiting != nil {
		select {
		case <-ctx.Done():
			return lease.Grant{}, ctx.Err()
		case <-s.waiting:
		}
	}
	g := s.grant
	g.Path, g.Owner, g.TTL, g.Valid = req.Path, req.Owner, req.TTL, req.TTL
	g.Ticket = lease.Ticket{Path: req.Path, Principal: req.Principal, Owner: req.Owner, Node: "node", Request: "h"}
	return g, s.err
}

func (s *scripted) Renew(_ context.Context, _ time.Time, t lease.Ticket, ttl time.Duration) (lease.Grant, error) {
	s.called("renew")
	return lease.Grant{Path: t.Path, Owner: t.Owner, Ticket: t, Token: 7, TTL: ttl, Valid: ttl}, s.err
}

func (s *scripted) Release(context.Context, lease.Ticket) error {
	s.called("release")
	return s.err
}

func (s *scripted) Find(_ context.Context, req lease.Request, _ fencing.Token) (lease.Ticket, error) {
	return lease.Ticket{Path: req.Path, Principal: req.Principal, Owner: req.Owner, Node: "node", Request: "h"}, s.err
}

func (s *scripted) ForceRelease(_ context.Context, f lease.Force) (lease.Forced, error) {
	s.called("force-release")
	if s.forcing != nil {
		s.forcing()
	}
	return lease.Forced{Node: "node", Token: f.Token, Notified: true}, s.err
}

func (s *scripted) Status(_ context.Context, path string) (lease.Status, error) {
	s.called("status")
	return lease.Status{Path: path, Contenders: s.status.Contenders, More: s.status.More}, s.err
}

func (s *scripted) List(ctx context.Context, parent, _ string, _ int, _ string) ([]lease.Status, string, error) {
	s.called("list")
	if s.listing != nil {
		if err := s.listing(ctx, parent); err != nil {
			return nil, "", err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []lease.Status{{Path: parent + "/a%2Fb", Contenders: s.status.Contenders}, {Path: parent + "/not%2fours"}}
	for i := range s.others {
		found = append(found, lease.Status{Path: fmt.Sprintf("%s/%d", parent, i), Contenders: s.status.Contenders})
	}
	return found, "a%2Fb", s.err
}

func (s *scripted) Watch(path string) api.Watch {
	s.called("watch")
	w := &watched{status: lease.Status{Path: path, Contenders: s.status.Contenders}, err: s.err, changed: make(chan struct{}), waits: s.waiting != nil}
	close(w.changed)
	return w
}

// A watched path has one status, and then an error unless it waits.
type watched struct {
	status  lease.Status
	err     error
	changed chan struct{}
	waits   bool
}

func (w *watched) Changed() <-chan struct{} { return w.changed }

func (w *watched) Status() (lease.Status, error) {
	err := w.err
	w.err = errZooKeeper
	if w.waits {
		w.changed = nil
	}
	return w.status, err
}

func (w *watched) Close() {}

// recorded are administrative actions that are kept in memory.
type recorded struct {
	mu     sync.Mutex
	events []audit.Event // guarded by mu: the newest first
	err    error         // guarded by mu: of each call
}

func (r *recorded) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

func (r *recorded) Begin(_ context.Context, e audit.Event) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.events = append([]audit.Event{e}, r.events...)
	}
	return e.Call, r.err
}

func (r *recorded) End(_ context.Context, name string, e audit.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.events {
		if r.events[i].Call == name && r.err == nil {
			r.events[i] = e
		}
	}
	return r.err
}

func (r *recorded) Withdraw(_ context.Context, name string, _ audit.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = slices.DeleteFunc(r.events, func(e audit.Event) bool { return e.Call == name })
	return r.err
}

func (r *recorded) List(_ context.Context, may func(string) bool, limit int) (listed []audit.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if may(e.Namespace) && len(listed) < limit {
			listed = append(listed, e)
		}
	}
	return listed, r.err
}

func (s *scripted) Waiters() []lease.Contender {
	if s.scraped != nil {
		s.scraped()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiters
}

// remembered is a history in memory, of one lock.
type remembered struct {
	mu      sync.Mutex
	entries []history.Entry // guarded by mu: the newest first
}

func (r *remembered) Add(_, _ string, e history.Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append([]history.Entry{e}, r.entries...)
}

func (r *remembered) List(context.Context, string, string) ([]history.Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries, nil
}

// room is a Quota without a bound.
type room struct{}

func (room) Admit(context.Context, string, string) error { return nil }
