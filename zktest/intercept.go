// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"errors"
	"slices"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A Count is the traffic of one operation on one path.
type Count struct {
	Op, Path string // as in Request
	Requests int    // or events
	Received int64  // bytes that servers received, frame lengths included
	Sent     int64  // bytes of the replies or events, frame lengths included
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
	gate    *gate // holds the current requests and replies
}

type countKey struct{ op, path string }

// Intercept applies a rule to the requests of all clients from now on. Several rules
// can apply to one request: all of them count it, and the first error wins. An invalid
// rule ends the test, or panics outside tests.
func (e *Ensemble) Intercept(r Rule) *Interceptor { return e.intercept(nil, r) }

// Intercept applies a rule to the requests of this link's client: see
// Ensemble.Intercept.
func (l *Link) Intercept(r Rule) *Interceptor { return l.ensemble.intercept(l, r) }

func (e *Ensemble) intercept(l *Link, r Rule) *Interceptor {
	code, err := r.check()
	i := &Interceptor{ensemble: e, link: l, rule: r, code: code, counts: make(map[countKey]*Count), gate: &gate{}}
	if err != nil {
		e.fatal("intercept: rule: %v", err)
		i.removed = true
		return i
	}
	e.mu.Lock()
	defer e.unlock()
	e.setRules(append(slices.Clone(e.interceptors()), i))
	return i
}

// interceptors returns the active interceptors, oldest first. The slice must not be
// changed.
func (e *Ensemble) interceptors() []*Interceptor {
	if all := e.rules.Load(); all != nil {
		return *all
	}
	return nil
}

// setRules replaces the interceptors. The caller holds mu.
func (e *Ensemble) setRules(all []*Interceptor) { e.rules.Store(&all) }

// Fired returns the number of requests that the rule was applied to.
func (i *Interceptor) Fired() int {
	i.ensemble.mu.Lock()
	defer i.ensemble.unlock()
	return i.fired
}

// Held returns the number of requests and replies that the rule holds now.
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

// Counts returns the traffic of the requests that the rule was applied to, by operation
// and path, sorted. Its memory use grows with the number of paths.
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

// Release releases the requests and replies that the rule holds now. It continues to
// hold later ones.
func (i *Interceptor) Release() {
	i.ensemble.mu.Lock()
	defer i.ensemble.unlock()
	i.release()
}

// Remove ends the rule, and releases the requests and replies that it holds. Its counts
// can still be read, and no longer change except for replies that are under way.
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
		c.progress.Broadcast()
		c.out.wake()
	}
}

// applyRules selects the rules that apply to a request, calls their functions and waits
// while they hold it. It returns nil if none applies. The caller holds no lock.
func (c *conn) applyRules(r *request) *effects {
	e := c.server.ensemble
	all := e.interceptors()
	if len(all) == 0 || r == nil {
		return nil
	}
	e.mu.Lock()
	ignored := c.ended || c.unanswered
	eff := &effects{request: c.describe(r)}
	e.unlock()
	if ignored {
		return nil
	}
	all = slices.DeleteFunc(slices.Clone(all), func(i *Interceptor) bool { return !i.selects(c, eff.request) })
	e.mu.Lock()
	for _, i := range all {
		if i.fire() {
			eff.add(i)
		}
	}
	e.unlock()
	if len(eff.rules) == 0 {
		return nil
	}
	for _, i := range eff.rules {
		if i.rule.Before != nil {
			i.rule.Before(eff.request)
		}
	}
	e.mu.Lock()
	defer e.unlock()
	for _, g := range eff.requestGates {
		g.hold(c)
		for !g.open.Load() && !c.ended {
			c.progress.Wait()
		}
	}
	return eff
}

// selects reports whether the rule selects a request. The caller holds no lock.
func (i *Interceptor) selects(c *conn, r Request) bool {
	switch {
	case i.link != nil && i.link != c.link:
		return false
	case i.rule.Session != 0 && i.rule.Session != r.Session:
		return false
	case i.code != wire.OK && cannotFail(r.Op):
		return false
	case !i.matches(r) && i.firstOp(r) < 0:
		return false
	}
	return i.rule.When == nil || i.rule.When(r)
}

// firstOp returns the index of the first operation of a transaction that the rule
// selects, or -1.
func (i *Interceptor) firstOp(r Request) int {
	whole := sameOp(i.rule.Op, r.Op)
	return slices.IndexFunc(r.Ops, func(op Request) bool {
		return (whole || sameOp(i.rule.Op, op.Op)) && i.rule.selectsPath(op.Path)
	})
}

// matches reports whether the rule selects the request itself, not one of its operations.
func (i *Interceptor) matches(r Request) bool {
	return sameOp(i.rule.Op, r.Op) && i.rule.selectsPath(r.Path)
}

// fire counts a request that the rule selects, and reports whether the rule applies to
// it. The caller holds the ensemble's mu.
func (i *Interceptor) fire() bool {
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

// add adds the effects of another rule. The caller holds the ensemble's mu.
func (eff *effects) add(i *Interceptor) {
	eff.rules = append(eff.rules, i)
	count := i.count(eff.request.Op, eff.request.Path)
	count.Requests++
	count.Received += int64(eff.request.Size)
	if eff.code == wire.OK && i.code != wire.OK {
		eff.code, eff.failsAt = i.code, i.firstOp(eff.request)
	}
	eff.delay += i.rule.Delay
	if i.rule.Hold&ToServer != 0 {
		eff.requestGates = append(eff.requestGates, i.gate)
	}
	if i.rule.Hold&ToClient != 0 {
		eff.replyGates = append(eff.replyGates, i.gate)
	}
	if eff.lose != ToServer && i.rule.Lose != 0 { // losing the request takes precedence
		eff.lose = i.rule.Lose
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

// refuseBy replaces the request by one that is answered with the error of a rule.
func (r *request) refuseBy(eff *effects) {
	if eff == nil || eff.code == wire.OK {
		return
	}
	if eff.code == wire.ThrottledOp { // a server refuses the request, also a transaction, before it is proposed
		r.body, r.quorum = refusal{eff.code}, false
		return
	}
	switch body := r.body.(type) {
	case wire.Multi:
		if eff.failsAt >= 0 {
			about := eff.request.Ops[eff.failsAt]
			body.Ops[eff.failsAt] = tree.Refused{Op: opOf(body.Ops[eff.failsAt], wire.OpError), Path: about.Path, Code: eff.code}
			return
		}
	case wire.Sync: // it changes nothing, so a refused one has no zxid
		r.quorum = false
	}
	if r.quorum {
		r.body = tree.Refused{Op: r.op, Path: eff.request.Path, Code: eff.code}
		return
	}
	r.body = refusal{eff.code}
}

// refusal is a request that is answered with an error and not carried out.
type refusal struct{ code wire.Code }

// sent counts a reply or an event of size bytes. The caller holds the ensemble's mu.
func (eff *effects) sent(c *conn, size int) {
	for _, i := range eff.rules {
		i.count(eff.request.Op, eff.request.Path).Sent += int64(size)
	}
	for _, g := range eff.replyGates {
		g.hold(c)
	}
}

// event sends an event. The caller holds the ensemble's mu.
func (c *conn) event(kind wire.EventType, path string) {
	frame := wire.EventFrame(kind, path)
	eff := effects{request: Request{Op: wire.OpNotification.String(), Path: path, Server: c.server.id}}
	if c.session != nil {
		eff.request.Session = c.session.id
	}
	if !c.ended && !c.lost {
		for _, i := range c.server.ensemble.interceptors() {
			if i.rule.Op == eff.request.Op && i.selects(c, eff.request) && i.fire() {
				eff.add(i)
			}
		}
	}
	if eff.lose != 0 {
		c.lost = true
		c.finish(errors.New("rule: lost this event"))
		return
	}
	c.sendBy(&eff, frame)
}

// describe returns the form in which rules see a request of this connection. The caller
// holds the ensemble's mu.
func (c *conn) describe(r *request) Request {
	seen := describe(r.op, r.body)
	seen.Server, seen.Size = c.server.id, r.size+4
	switch {
	case r.op == opHandshake:
		seen.Op = opConnect
	case c.session != nil:
		seen.Session = c.session.id
	}
	return seen
}
