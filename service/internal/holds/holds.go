// SPDX-License-Identifier: Apache-2.0

// Package holds follows the leases that one replica has granted or renewed, so that its metrics can count them, measure how
// long they are held, and find those that are held far longer than their lock usually is. It sends no request: what other
// replicas do with a lease, it does not know.
package holds

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxLeases bounds the leases that are followed, and maxLocks the locks whose usual time is known.
	maxLeases = 1 << 17
	maxLocks  = 1 << 14
	// lookEvery is the longest time between two looks at all leases while leases are granted. A scrape is another look, unless
	// lookPause has not passed: no credentials are needed for it, and requests wait for the look.
	lookEvery = time.Minute
	lookPause = time.Second
)

// A Lease is one lease as the replica has last written it.
type Lease struct {
	Node             string // of the lease: its name never recurs
	Request          string // that has a part in it
	Namespace, Key   string
	Principal, Owner string
	Election         bool          // a leader holds for as long as it lives
	Valid            time.Duration // from now on
	Renewal          bool          // it was granted before: perhaps by another replica
}

// owner is what a session is to the service: a program that holds leases.
type owner struct{ principal, owner string }

// lock is the lock of a lease.
type lock struct{ namespace, key string }

func (l *Lease) lock() lock { return lock{l.Namespace, l.Key} }

// hold is a lease that is followed. A replica has many: instants are durations since the table's start.
type hold struct {
	lease   Lease // Renewal: it was granted before since. Request is empty once it was released
	since   time.Duration
	until   time.Duration // if it is renewed no more
	others  []string      // requests that share it
	overdue bool
}

// join adds a request.
func (h *hold) join(request string) {
	if h.lease.Request != request && !slices.Contains(h.others, request) {
		h.others = append(h.others, request)
	}
}

// leave removes a request, and reports whether none is left.
func (h *hold) leave(request string) bool {
	if h.lease.Request == request {
		h.lease.Request = ""
	}
	h.others = slices.DeleteFunc(h.others, func(other string) bool { return other == request })
	return h.lease.Request == "" && len(h.others) == 0
}

// Counts are what is known of all leases.
type Counts struct {
	Locks, Elections int // that are held
	Owners           int // that hold them
	Overdue          int // locks that are held far longer than usual
}

// A Table follows leases. It is safe for concurrent use.
type Table struct {
	logger *slog.Logger
	ended  func(held time.Duration, election bool)
	start  time.Time

	mu     sync.Mutex // guards what follows
	leases map[string]*hold
	owners map[owner]int
	of     map[string]map[*hold]struct{} // by principal
	locks  map[lock]*usual
	counts Counts // but for Owners
	looked time.Duration
}

// New returns a Table. ended is called for each lease whose grant and end the replica has seen.
func New(logger *slog.Logger, ended func(held time.Duration, election bool)) *Table {
	return &Table{
		logger: logger, ended: ended, start: time.Now(),
		leases: make(map[string]*hold), owners: make(map[owner]int), of: make(map[string]map[*hold]struct{}), locks: make(map[lock]*usual),
	}
}

// Written notes that the replica has granted or renewed a lease.
func (t *Table) Written(l Lease) {
	now := t.now()
	var found []overdue
	defer func() { t.report(found) }() // without the mutex
	t.mu.Lock()
	defer t.mu.Unlock()
	if now-t.looked > lookEvery {
		found = t.look(now)
	}
	h := t.leases[l.Node]
	if h == nil {
		if len(t.leases) >= maxLeases {
			t.makeRoom()
		}
		h = &hold{lease: l, since: now}
		t.leases[l.Node] = h
		t.owners[owner{l.Principal, l.Owner}]++
		if t.of[l.Principal] == nil {
			t.of[l.Principal] = make(map[*hold]struct{})
		}
		t.of[l.Principal][h] = struct{}{}
		t.count(h, 1)
	}
	h.until, h.lease.Valid = now+l.Valid, l.Valid
	h.join(l.Request)
}

// makeRoom drops a lease of the principal that has most of them: the budgets of the others depend on theirs.
func (t *Table) makeRoom() {
	var most map[*hold]struct{}
	for _, holds := range t.of {
		if len(holds) > len(most) {
			most = holds
		}
	}
	for h := range most {
		t.drop(h) // any: a renewal counts it again
		return
	}
}

func (t *Table) now() time.Duration { return time.Since(t.start) }

// Of returns how many leases a principal has. A lease whose end the replica has not seen may count until the next look at all.
func (t *Table) Of(principal string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.of[principal])
}

// Released notes that a request has released its part in a lease.
func (t *Table) Released(node, request string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.leases[node]; h != nil && h.leave(request) {
		t.end(h)
	}
}

// Ended notes that a lease has ended now: it expired, or its lock was released by force.
func (t *Table) Ended(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.leases[node]; h != nil {
		t.end(h)
	}
}

// Forget notes that a lease has ended at an unknown time.
func (t *Table) Forget(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.leases[node]; h != nil {
		t.drop(h)
	}
}

// Count returns the counts, and logs the leases that have become overdue. Those that have run out, or become overdue, within the
// last second may not count as such.
func (t *Table) Count() Counts {
	var found []overdue
	defer func() { t.report(found) }() // without the mutex
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := t.now(); now-t.looked >= lookPause {
		found = t.look(now)
	}
	counts := t.counts
	counts.Owners = len(t.owners)
	return counts
}

// count adds n times a lease to the counts.
func (t *Table) count(h *hold, n int) {
	if h.lease.Election {
		t.counts.Elections += n
	} else {
		t.counts.Locks += n
	}
	if h.overdue {
		t.counts.Overdue += n
	}
}

// overdue is a lease that has become overdue.
type overdue struct {
	lease       Lease
	held, usual time.Duration
}

func (t *Table) report(found []overdue) {
	for _, o := range found {
		t.logger.Warn("lease is held far longer than usual", "namespace", o.lease.Namespace, "key", o.lease.Key,
			"owner", o.lease.Owner, "held", o.held.Round(time.Second), "usual", o.usual)
	}
}

// look drops the leases that have run out, and returns those that have become overdue. The dropped ones have ended elsewhere, or
// another replica has renewed them: this replica hears of the leases that it deletes itself.
func (t *Table) look(now time.Duration) (found []overdue) {
	t.looked = now
	for _, h := range t.leases {
		switch {
		case now > h.until+h.lease.Valid/32+time.Second: // the observer's margin, and its request
			t.drop(h)
			continue
		case h.lease.Election, h.overdue:
			continue
		}
		held := now - h.since
		if u := t.locks[h.lease.lock()]; u != nil && u.exceededBy(held) {
			h.overdue = true
			t.counts.Overdue++
			found = append(found, overdue{h.lease, held, u.median})
		}
	}
	return found
}

func (t *Table) end(h *hold) {
	t.drop(h)
	if h.lease.Renewal {
		return
	}
	held := t.now() - h.since
	t.ended(held, h.lease.Election)
	if h.lease.Election {
		return
	}
	u := t.locks[h.lease.lock()]
	if u == nil {
		for other := range t.locks {
			if len(t.locks) < maxLocks {
				break
			}
			delete(t.locks, other) // any: it is only knowledge
		}
		u = &usual{}
		t.locks[h.lease.lock()] = u
	}
	u.add(held)
}

func (t *Table) drop(h *hold) {
	delete(t.leases, h.lease.Node)
	t.count(h, -1)
	of := owner{h.lease.Principal, h.lease.Owner}
	if t.owners[of]--; t.owners[of] == 0 {
		delete(t.owners, of)
	}
	if delete(t.of[of.principal], h); len(t.of[of.principal]) == 0 {
		delete(t.of, of.principal)
	}
}
