// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A Count is how much traffic one operation on one path made.
type Count struct {
	Op, Path string // as in Request
	Requests int    // or events
	Received int64  // bytes that servers received, frame lengths included
	Sent     int64  // bytes of the replies or events
}

// An Interceptor applies a Rule until Remove. Safe for concurrent use.
type Interceptor struct {
	ensemble *Ensemble
	link     *Link // nil: all clients
	rule     Rule
	code     wire.Code // of rule.Fail, OK if that is nil

	// Guarded by the ensemble's mu.
	removed bool
	skipped int
	fired   int
	counts  map[countKey]*Count
	gate    *gate // of what is held now
}

type countKey struct{ op, path string }

// A gate holds requests and replies until it opens.
type gate struct {
	open  atomic.Bool // set under the ensemble's mu
	conns []*conn     // of what waits, one for each; guarded by the ensemble's mu
}

// hold notes that something of the connection waits. The caller holds the ensemble's
// mu.
func (g *gate) hold(c *conn) {
	if !g.open.Load() {
		g.conns = append(g.conns, c)
	}
}

// Intercept applies a rule to the requests of all clients from now on. Several rules
// can apply to one request: all of them count it, and the first error wins. A rule that
// makes no sense ends the test, or panics outside tests.
func (e *Ensemble) Intercept(r Rule) *Interceptor { return e.intercept(nil, r) }

// Intercept applies a rule to the requests of this link's client: see
// Ensemble.Intercept.
func (l *Link) Intercept(r Rule) *Interceptor { return l.ensemble.intercept(l, r) }

func (e *Ensemble) intercept(l *Link, r Rule) *Interceptor {
	code, err := r.check()
	i := &Interceptor{ensemble: e, link: l, rule: r, code: code, counts: make(map[countKey]*Count), gate: &gate{}}
	if err != nil {
		e.fatal("rule: %v", err)
		i.removed = true
		return i
	}
	e.mu.Lock()
	defer e.unlock()
	e.setRules(append(slices.Clone(e.interceptors()), i))
	return i
}

// interceptors are those that apply, in their order. The slice must not be changed.
func (e *Ensemble) interceptors() []*Interceptor {
	if all := e.rules.Load(); all != nil {
		return *all
	}
	return nil
}

// setRules replaces the interceptors. The caller holds mu.
func (e *Ensemble) setRules(all []*Interceptor) { e.rules.Store(&all) }

// Fired is how many requests the rule was applied to.
func (i *Interceptor) Fired() int {
	i.ensemble.mu.Lock()
	defer i.ensemble.unlock()
	return i.fired
}

// Held is how many requests and replies the rule holds now.
func (i *Interceptor) Held() int {
	e := i.ensemble
	e.mu.Lock()
	defer e.unlock()
	n := 0
	for _, c := range i.gate.conns {
		if _, runs := e.conns[c]; runs {
			n++
		}
	}
	return n
}

// Counts is the traffic of the requests that the rule was applied to, by operation and
// path, sorted. The memory it takes grows with the number of paths.
func (i *Interceptor) Counts() []Count {
	i.ensemble.mu.Lock()
	defer i.ensemble.unlock()
	all := make([]Count, 0, len(i.counts))
	for _, count := range i.counts {
		all = append(all, *count)
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Path, b.Path))
	})
	return all
}

// Release lets everything pass that the rule holds now. It goes on holding what comes
// later.
func (i *Interceptor) Release() {
	i.ensemble.mu.Lock()
	defer i.ensemble.unlock()
	i.release()
}

// Remove ends the rule, and lets everything pass that it holds. Its counts can still be
// read, and no longer change except for replies that are under way.
func (i *Interceptor) Remove() {
	e := i.ensemble
	e.mu.Lock()
	defer e.unlock()
	i.removed = true
	e.setRules(slices.DeleteFunc(slices.Clone(e.interceptors()), func(other *Interceptor) bool { return other == i }))
	i.release()
}

// release opens the gate. The caller holds mu.
func (i *Interceptor) release() {
	opened := i.gate
	i.gate = &gate{}
	opened.open.Store(true)
	for _, c := range opened.conns {
		c.eased.Broadcast()
		c.out.stir()
	}
}

// A treatment is what the rules that apply to a request do with it.
type treatment struct {
	by    []*Interceptor
	from  Request // as it was selected
	code  wire.Code
	at    int // the operation of the transaction that fails, -1 for the whole request
	lose  Direction
	delay time.Duration
	// What the request waits for, and its reply. The gates are those of the moment at
	// which the rules applied: a Release after it is not missed.
	request, reply []*gate
}

// treat selects the rules that apply to a request, calls their functions and waits
// while they hold it. It returns nil if none applies. The caller holds no lock.
func (c *conn) treat(r *request) *treatment {
	e := c.server.ensemble
	all := e.interceptors()
	if len(all) == 0 || r == nil {
		return nil
	}
	e.mu.Lock()
	ignored := c.over || c.mute
	t := &treatment{from: c.describe(r)}
	e.unlock()
	if ignored {
		return nil
	}
	all = slices.DeleteFunc(slices.Clone(all), func(i *Interceptor) bool { return !i.selects(c, t.from) })
	e.mu.Lock()
	for _, i := range all {
		if i.apply() {
			t.add(i)
		}
	}
	e.unlock()
	if len(t.by) == 0 {
		return nil
	}
	for _, i := range t.by {
		if i.rule.Before != nil {
			i.rule.Before(t.from)
		}
	}
	e.mu.Lock()
	defer e.unlock()
	for _, g := range t.request {
		g.hold(c)
		for !g.open.Load() && !c.over {
			c.eased.Wait()
		}
	}
	return t
}

// selects reports whether the rule is about such a request. The caller holds no lock.
func (i *Interceptor) selects(c *conn, r Request) bool {
	switch {
	case i.link != nil && i.link != c.link:
		return false
	case i.rule.Session != 0 && i.rule.Session != r.Session:
		return false
	case i.code != wire.OK && cannotFail(r.Op):
		return false
	case !i.covers(r) && i.part(r) < 0:
		return false
	}
	return i.rule.When == nil || i.rule.When(r)
}

// part is the first operation of a transaction that the rule is about, -1 if none is.
func (i *Interceptor) part(r Request) int {
	whole := sameOp(i.rule.Op, r.Op)
	return slices.IndexFunc(r.Ops, func(op Request) bool {
		return (whole || sameOp(i.rule.Op, op.Op)) && i.rule.on(op.Path)
	})
}

// covers reports whether the rule is about the request itself.
func (i *Interceptor) covers(r Request) bool { return sameOp(i.rule.Op, r.Op) && i.rule.on(r.Path) }

// apply counts a request that the rule selects, and reports whether the rule applies to
// it. The caller holds the ensemble's mu.
func (i *Interceptor) apply() bool {
	switch {
	case i.removed, i.rule.Times > 0 && i.fired >= i.rule.Times:
		return false
	case i.skipped < i.rule.Skip:
		i.skipped++
		return false
	}
	i.fired++
	return true
}

// add has another rule apply. The caller holds the ensemble's mu.
func (t *treatment) add(i *Interceptor) {
	t.by = append(t.by, i)
	count := i.count(t.from.Op, t.from.Path)
	count.Requests++
	count.Received += int64(t.from.Size)
	if t.code == wire.OK && i.code != wire.OK {
		t.code, t.at = i.code, i.part(t.from)
	}
	t.delay += i.rule.Delay
	if i.rule.Hold&ToServer != 0 {
		t.request = append(t.request, i.gate)
	}
	if i.rule.Hold&ToClient != 0 {
		t.reply = append(t.reply, i.gate)
	}
	if t.lose != ToServer && i.rule.Lose != 0 { // of two, the one that leaves less
		t.lose = i.rule.Lose
	}
}

func (i *Interceptor) count(op, path string) *Count {
	key := countKey{op, path}
	count := i.counts[key]
	if count == nil {
		count = &Count{Op: op, Path: path}
		i.counts[key] = count
	}
	return count
}

// refuseBy makes the request one that is answered with the error of a rule.
func (r *request) refuseBy(t *treatment) {
	if t == nil || t.code == wire.OK {
		return
	}
	switch body := r.body.(type) {
	case wire.Multi:
		if t.at >= 0 {
			about := t.from.Ops[t.at]
			body.Ops[t.at] = tree.Refused{Op: opOf(body.Ops[t.at], wire.OpError), Path: about.Path, Code: t.code}
			return
		}
	case wire.Sync: // changes nothing, so it has no zxid of its own
		r.quorum = false
	}
	if r.quorum {
		r.body = tree.Refused{Op: r.op, Path: t.from.Path, Code: t.code}
		return
	}
	r.body = refusal{t.code}
}

// refusal is a request that is answered with an error and not carried out.
type refusal struct{ code wire.Code }

// sent counts a reply of so many bytes, or an event. The caller holds the ensemble's
// mu.
func (t *treatment) sent(c *conn, size int) {
	for _, i := range t.by {
		i.count(t.from.Op, t.from.Path).Sent += int64(size)
	}
	for _, g := range t.reply {
		g.hold(c)
	}
}

// event sends an event. The caller holds the ensemble's mu.
func (c *conn) event(kind wire.EventType, path string) {
	frame := wire.EventFrame(kind, path)
	t := treatment{from: Request{Op: wire.OpNotification.String(), Path: path, Server: c.server.index}}
	if c.session != nil {
		t.from.Session = c.session.id
	}
	if !c.over && !c.lost {
		for _, i := range c.server.ensemble.interceptors() {
			if i.rule.Op == t.from.Op && i.selects(c, t.from) && i.apply() {
				t.add(i)
			}
		}
	}
	if t.lose != 0 {
		c.lost = true
		c.finish(errors.New("rule: lost this event"))
		return
	}
	c.sendBy(&t, frame)
}

// describe is what rules see of a request. The caller holds the ensemble's mu.
func (c *conn) describe(r *request) Request {
	seen := describe(r.op, r.body)
	seen.Server, seen.Size = c.server.index, r.size+4
	switch {
	case r.op == opGreeting:
		seen.Op = opConnect
	case c.session != nil:
		seen.Session = c.session.id
	}
	return seen
}
