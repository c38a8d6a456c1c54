// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/lock"
)

// LeaseScenarios contains the scripts in which replicas a and b of the lock service, and a library's client c, contend. Each
// runs with every cut, like Scenarios.
var LeaseScenarios = []Scenario{
	{"a caller acquires, renews and releases", func(w *World) {
		w.startReplicas("a")
		for _, name := range []string{"x", "y"} {
			h := w.caller(name).acquire(Call{Replicas: all("a")})
			h.work(w.fraction(1), true)
			h.giveUp(true, 0)
		}
		w.drain()
	}},
	{"two callers contend through two replicas", func(w *World) {
		w.startReplicas("a", "b")
		w.inOrder(
			func() { w.hold("x", Call{Replicas: all("a")}, w.fraction(2)) },
			func() { w.hold("y", Call{Replicas: all("b"), Wait: 3 * w.fraction(1)}, w.fraction(2)) },
		)
		w.drain()
	}},
	{"three callers and a library's client contend through two replicas", func(w *World) {
		w.startReplicas("a", "b")
		c := w.connect("c")["c"]
		concurrently(
			func() { w.hold("x", Call{Replicas: all("a", "b"), Wait: 8 * w.fraction(1)}, w.fraction(4)) },
			func() { w.hold("y", Call{Replicas: all("b", "a"), Wait: 8 * w.fraction(1)}, w.fraction(4)) },
			func() { w.hold("z", Call{Replicas: all("a"), Wait: 8 * w.fraction(1)}, w.fraction(4)) },
			func() { c.must(c.lock(w.fraction(4), 0)) },
		)
		w.drain()
	}},
	{"a lease passes to a library's waiter, and back", func(w *World) {
		w.startReplicas("a")
		c := w.connect("c")["c"]
		w.inOrder(
			func() { w.hold("x", Call{Replicas: all("a")}, w.fraction(2)) },
			func() { c.must(c.lock(w.fraction(4), 0)) },
			func() { w.hold("y", Call{Replicas: all("a"), Wait: 4 * w.fraction(1)}, w.fraction(4)) },
		)
		w.drain()
	}},
	{"a caller dies with a lease, and a library's waiter is granted the lock", func(w *World) {
		w.startReplicas("a")
		c := w.connect("c")["c"]
		w.inOrder(
			func() { w.caller("x").acquire(Call{Replicas: all("a")}).work(2*w.fraction(1), false) },
			func() { c.must(c.lock(w.fraction(4), 0)) },
		)
		w.drain()
	}},
	{"a caller dies with a lease, and another one tries until the lock is free", func(w *World) {
		w.startReplicas("a")
		c := w.connect("c")["c"]
		w.inOrder(
			func() { w.caller("x").acquire(Call{Replicas: all("a")}).work(2*w.fraction(1), false) },
			func() {
				for range 12 {
					if err := c.try(); err == nil {
						return
					} else if !errors.Is(err, lock.ErrLocked) {
						c.must(err)
						return
					}
					time.Sleep(w.fraction(4))
				}
				w.problemf("the lease of a caller that died was not deleted")
			},
		)
		w.drain()
	}},
	{"an answer is lost, and the caller asks another replica late", func(w *World) {
		w.startReplicas("a", "b")
		c := w.connect("c")["c"]
		w.inOrder(
			func() {
				w.hold("x", Call{Replicas: all("a", "b"), Patience: []time.Duration{deaf}, Silent: 3 * w.fraction(4)}, 2*w.fraction(1))
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
		)
		w.drain()
	}},
	{"two handlers serve one request that waits", func(w *World) {
		w.startReplicas("a", "b")
		w.inOrder(
			func() { w.hold("x", Call{Replicas: all("a")}, w.fraction(1)) },
			func() {
				w.hold("y", Call{Replicas: all("a", "b"), Wait: 4 * w.fraction(1), Patience: []time.Duration{w.fraction(2)}}, w.fraction(2))
			},
			func() { w.hold("z", Call{Replicas: all("b"), Wait: 6 * w.fraction(1)}, w.fraction(8)) },
		)
		w.drain()
	}},
	{"a caller hangs up while it waits, and asks another replica", func(w *World) {
		w.startReplicas("a", "b")
		c := w.connect("c")["c"]
		w.inOrder(
			func() { w.hold("x", Call{Replicas: all("a")}, w.fraction(2)) },
			func() {
				w.hold("y", Call{
					Replicas: all("a", "b"), Wait: 4 * w.fraction(1), Patience: []time.Duration{w.fraction(2) - w.fraction(32)}, HangUp: w.fraction(16),
				}, w.fraction(2))
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
		)
		w.drain()
	}},
	{"a caller asks for a longer TTL, and then for a shorter one", func(w *World) {
		w.startReplicas("a", "b")
		c := w.connect("c")["c"]
		w.inOrder(
			func() {
				h := w.caller("x").acquire(Call{Replicas: all("a", "b"), TTL: 2 * w.fraction(1)})
				h.renewFor(w.fraction(4))
				h.work(3*w.fraction(1), false)
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
		)
		w.drain()
	}},
	{"an administrator revokes a lease that is renewed", func(w *World) {
		p, c := w.startReplicas("a", "b"), w.connect("c")["c"]
		w.inOrder(
			func() {
				h := w.caller("x").acquire(Call{Replicas: all("a")}, lease.ErrRevoked)
				h.work(4*w.fraction(1), true)
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
			func() {
				time.Sleep(w.fraction(4))
				if p["b"].force(lockPath) {
					w.mustEndWithin(2 * w.fraction(1))
				}
			},
		)
		w.drain()
	}},
	{"an administrator revokes a library's holder", func(w *World) {
		p, c := w.startReplicas("a"), w.connect("c", "d")
		w.inOrder(
			func() { c["c"].must(c["c"].lock(3*w.fraction(1), 0)) },
			func() { c["d"].must(c["d"].lock(w.fraction(8), 0)) },
			func() { time.Sleep(w.fraction(4)); p["a"].force(lockPath) },
		)
		w.drain()
	}},
	{"an owner enters its own lease, and one release is sent twice", func(w *World) {
		w.startReplicas("a", "b")
		c := w.connect("c")["c"]
		w.inOrder(
			func() {
				h := w.caller("x").acquire(Call{Replicas: all("a", "b"), Reentrant: true, TTL: 2 * w.fraction(1)})
				h.enter()
				h.work(w.fraction(4), false)
				if h != nil && len(h.tickets) > 1 {
					h.giveUp(false, 1) // and sent again to the other replica
				}
				h.work(w.fraction(1), false)
				h.giveUp(true, 0)
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
		)
		w.drain()
	}},
	{"a replica crashes with a lease and with a waiter, and the callers ask another one", func(w *World) {
		p, c := w.startReplicas("a", "b"), w.connect("c")["c"]
		w.inOrder(
			func() { w.hold("x", Call{Replicas: all("a")}, w.fraction(1)) },
			func() {
				w.hold("y", Call{Replicas: all("a", "b"), Wait: 4 * w.fraction(1), Patience: []time.Duration{w.fraction(1)}}, w.fraction(4))
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
			func() { time.Sleep(w.fraction(2)); w.must(p["a"].inject("crash")) },
		)
		w.drain()
	}},
	{"a replica is paused while it grants, and the caller asks another one", func(w *World) {
		p, c := w.startReplicas("a", "b"), w.connect("c")["c"]
		w.inOrder(
			func() {
				w.hold("x", Call{Replicas: all("a", "b"), Wait: 6 * w.fraction(1), Patience: []time.Duration{w.fraction(2)}}, w.fraction(1))
			},
			func() { c.must(c.lock(w.fraction(4), 0)) },
			func() {
				w.must(p["a"].inject("pause"))
				time.Sleep(2 * w.fraction(1))
				w.must(p["a"].inject("wake"))
			},
		)
		w.drain()
	}},
	{"a caller waits for longer than one renewal", func(w *World) {
		w.startReplicas("a")
		c := w.connect("c")["c"]
		w.inOrder(
			func() { c.must(c.lock(6*w.fraction(1), 0)) },
			func() { w.hold("x", Call{Replicas: all("a"), Wait: 8 * w.fraction(1)}, w.fraction(4)) },
			func() { w.hold("y", Call{Replicas: all("a"), Wait: 8 * w.fraction(1)}, w.fraction(4)) },
		)
		w.drain()
	}},
}

func all(replicas ...string) []string { return replicas }

// hold has a caller acquire a lease, which must succeed, work under it for d, renewing it, and release it.
func (w *World) hold(name string, call Call, d time.Duration) {
	call.Hold, call.Renew = d, cmp.Or(call.TTL, w.opts.Timeout)
	if !w.caller(name).use(call) {
		w.problemf("the call of %s was not granted: %v", name, call)
	}
}

// renewFor renews the lease once, for ttl.
func (h *held) renewFor(ttl time.Duration) {
	if h != nil {
		_ = h.renew(h.tickets[0], h.renewedAt(), ttl)
	}
}

// mustEndWithin records a problem if the first contender, which was revoked, still is the first after d.
func (w *World) mustEndWithin(d time.Duration) {
	w.mu.Lock()
	revoked := make([]string, 0, len(w.revoked))
	for path := range w.revoked {
		revoked = append(revoked, path)
	}
	w.mu.Unlock()
	time.Sleep(d)
	for _, path := range revoked {
		if _, _, err := w.ensemble.Get(path); err == nil {
			w.problemf("%s was revoked, and still exists %v later", path, d)
		}
	}
}
