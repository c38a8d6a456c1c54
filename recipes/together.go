// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/claim"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// maxTogether is how many queues one transaction joins at most. With records of the greatest size it
// stays below half of what a server accepts. The paths may have the other half.
const maxTogether = 64

// ErrApart is returned by ClaimTogether when one transaction cannot take all claims, because a queue
// has a contender for instance. Nothing is held or queued then: Claim one after another.
var ErrApart = errors.New("claims cannot be taken in one transaction")

// A Part is one of several claims that are taken together.
type Part struct {
	Queue *Queue
	Mode  Mode
}

// ClaimTogether takes the claims of several queues of one client, with different paths, in one transaction, if no queue has a
// contender that conflicts. Otherwise it takes none, leaves no node, and returns an
// error for which errors.Is finds ErrApart. It waits for no contender, only for answers, and fails
// as Claim does.
//
// Nodes that one transaction creates have the same zxid, so the tokens of the claims are equal. Each
// is greater than those of all earlier claims of its path that conflict with it.
func ClaimTogether(ctx context.Context, parts ...Part) ([]*Claim, error) {
	return claimTogether(ctx, parts, func(g *together) ([]*Claim, error) { return g.claim(ctx) })
}

// TryTogether is ClaimTogether for a caller that does not wait for the claims either way. If a contender conflicts with one of them,
// its error is the *BusyError of Queue.Try.
func TryTogether(ctx context.Context, parts ...Part) ([]*Claim, error) {
	return claimTogether(ctx, parts, func(g *together) ([]*Claim, error) {
		g.try = true
		for lost := 0; ; lost++ {
			g.isLast = lost == maxLostRaces
			claims, err := g.claim(ctx)
			if ctx.Err() != nil || !errors.Is(err, errContended) {
				return claims, err
			}
		}
	})
}

// claimTogether checks the arguments, and reports the claims that take returns.
func claimTogether(ctx context.Context, parts []Part, take func(*together) ([]*Claim, error)) ([]*Claim, error) {
	if err := checkTogether(ctx, parts); err != nil {
		return nil, err
	}
	n := len(parts)
	if n > maxTogether {
		return nil, fmt.Errorf("%w: %d are more than %d", ErrApart, n, maxTogether)
	}
	size := 0
	for _, p := range parts {
		size += 2 * len(p.Queue.path)
	}
	if size > zkpath.MaxTransaction/2 {
		return nil, fmt.Errorf("%w: the paths take %d bytes of a transaction, and %d are the limit", ErrApart, size, zkpath.MaxTransaction/2)
	}
	c, began := parts[0].Queue.client, time.Now()
	s, err := c.Session(ctx)
	if err != nil {
		return nil, &Error{Op: "claim", Path: parts[0].Queue.path, Err: sentinel.WithCtx(ctx, err)}
	}
	g := &together{
		session: s, queues: make([]*Queue, n), modes: make([]Mode, n),
		joins: make([]attempt, n), versions: make([]int32, n), alone: make([]bool, n),
	}
	for i, part := range parts {
		g.queues[i], g.modes[i] = part.Queue, part.Mode
	}
	claims, err := take(g)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		parts[0].Queue.client.Report().Granted(g.queues[i].path, c.Path(), c.Token(), time.Since(began))
	}
	return claims, nil
}

// checkTogether returns an error for arguments of ClaimTogether that are invalid.
func checkTogether(ctx context.Context, parts []Part) error {
	if len(parts) == 0 {
		return &Error{Op: "claim", Err: errors.New("no queues")}
	}
	first := parts[0].Queue
	if ctx == nil {
		return &Error{Op: "claim", Path: first.path, Err: sentinel.ErrNilContext}
	}
	seen := make(map[string]bool, len(parts))
	for _, part := range parts {
		q := part.Queue
		if q.client != first.client {
			return &Error{Op: "claim", Path: q.path, Err: fmt.Errorf("belongs to another client than %s", first.path)}
		}
		if q.takeover != nil {
			return &Error{Op: "claim", Path: q.path, Err: errors.New("a queue with a lock-delay or a fence function is claimed alone")}
		}
		if err := q.checkMode(part.Mode); err != nil {
			return err
		}
		if seen[q.path] {
			return &Error{Op: "claim", Path: q.path, Err: errors.New("given twice")}
		}
		seen[q.path] = true
	}
	return nil
}

// together is one attempt to take several claims at the same time. Its slices are by queue.
type together struct {
	session  *client.Session
	queues   []*Queue
	modes    []Mode
	joins    []attempt
	versions []int32 // of the parents, when no contender conflicted; -1 for readers, whose joins need not be undisturbed
	alone    []bool  // the answer shows that the node has no predecessor

	try    bool // a contender that conflicts is the result
	isLast bool // of the attempts of a try: it only looks who has won the races
	lost   int  // index of the queue in which another contender has joined first
}

func (g *together) claim(ctx context.Context) ([]*Claim, error) {
	if err := g.look(ctx); err != nil {
		return nil, err
	}
	if err := g.join(ctx); err != nil {
		return nil, err
	}
	claims := make([]*Claim, len(g.queues))
	err := g.checkFirst(ctx)
	for i := range g.queues {
		if err == nil {
			claims[i], err = grant(ctx, g.session, g.joins[i].place)
		}
	}
	if err == nil {
		return claims, nil
	}
	for _, c := range claims {
		if c != nil && claim.Of(c).End(sentinel.ErrReleased) {
			g.session.Ungrant(claim.Of(c).Node())
		}
	}
	g.leave(func(int) bool { return true })
	return nil, g.apart(ctx, err)
}

// apart adds ErrApart to an error, unless claiming one after another is no better: ctx is done, or a try has its result.
func (g *together) apart(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return sentinel.WithCtx(ctx, err)
	case g.try && errors.As(err, new(*BusyError)):
		return err
	}
	return fmt.Errorf("%w: %w", ErrApart, err)
}

// look fails unless no contender conflicts and the parents may be written. A parent's version is
// that of the moment at which none was seen.
func (g *together) look(ctx context.Context) error {
	indexes, errs := make([]int, len(g.queues)), make([]error, len(g.queues))
	for i := range indexes {
		indexes[i] = i
	}
	err := session.Each(g.session.Session, indexes, func(i int) { errs[i] = g.lookAt(ctx, i) })
	if err = firstOf(append(errs, err)); err == nil && g.isLast {
		err = &BusyError{Path: g.queues[g.lost].path}
	}
	if err != nil {
		return g.apart(ctx, err)
	}
	return nil
}

// firstOf returns the first error that is not nil.
func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (g *together) lookAt(ctx context.Context, i int) error {
	q := g.queues[i]
	v, err := q.learn(ctx, g.session)
	if err != nil {
		return err
	}
	lst, err := list(ctx, g.session, q.path)
	switch {
	case err != nil:
		return err
	case lst.parent == nil:
		q.forget()
		return &Error{Op: "join", Path: q.path, Err: zk.ErrNoNode}
	case !v.writable:
		return &Error{Op: "join", Path: q.path, Err: errReadOnly}
	}
	if err := g.conflict(ctx, i, lst); err != nil {
		return err
	}
	g.joins[i].view, g.versions[i] = v, lst.parent.Version
	if g.modes[i] == Read {
		g.versions[i] = -1
	}
	return nil
}

// conflict returns an error if the listing of a queue shows a contender that conflicts. A try reads the first one, to name it, and
// returns nil if none is left.
func (g *together) conflict(ctx context.Context, i int, lst *listing) error {
	q, mode := g.queues[i], g.modes[i]
	if !slices.ContainsFunc(lst.members, func(m protocol.Member) bool { return m.Conflicts(mode) }) {
		return nil
	}
	if !g.try {
		return &Error{Op: "join", Path: q.path, Err: errContended}
	}
	front, found, err := q.frontFor(ctx, g.session, slices.Clone(lst.members), mode)
	if err == nil && found {
		q.observe(front, time.Now())
		err = &BusyError{Path: q.path, Front: front}
	}
	return err
}

// join creates all nodes in one transaction, which is only carried out while no parent has been
// written since it was read, and each join of this library writes it. After an error there is
// none of the nodes, or it is being deleted.
func (g *together) join(ctx context.Context) error {
	mine, err := g.session.TakeTurn(ctx, session.Joining)
	if err != nil {
		return g.apart(ctx, &Error{Op: "join", Path: g.queues[0].path, Err: session.NotSent(err)})
	}
	var ops []any
	for i, q := range g.queues {
		e := q.sessionEntry(g.session, g.modes[i])
		p, _ := q.place(g.session, g.joins[i].view, e, false) // no witness: names have a nonce
		g.session.Register(p.Node)
		g.joins[i].place = p
		ops = append(ops,
			p.create(e.data(p), e.acl),
			&zk.SetDataRequest{Path: q.path, Data: []byte(parentMark), Version: g.versions[i]},
		)
	}
	results, err := session.CallInTurn(ctx, g.session.Session, session.Joining, mine, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(ops...)
	})
	g.record(results, err)
	return g.settle(ctx)
}

// record notes the answer of the transaction in each attempt.
func (g *together) record(results []zk.MultiResponse, err error) {
	if err == nil && len(results) != 2*len(g.queues) {
		err = fmt.Errorf("server answered a join of %d operations with %d results", 2*len(g.queues), len(results))
	}
	refused := slices.IndexFunc(results, func(r zk.MultiResponse) bool { return r.Error != nil })
	g.lost = max(refused, 0) / 2
	for i := range g.joins {
		a := &g.joins[i]
		switch {
		case err == nil:
			g.created(i, results[2*i], results[2*i+1])
		case refused < 0 || session.OutcomeOf(err) != session.Refused:
			a.err = err
		case refused == 2*i+1 && errors.Is(results[refused].Error, zk.ErrNoAuth):
			a.err = errReadOnly
		case refused == 2*i || refused == 2*i+1 && !errors.Is(results[refused].Error, zk.ErrBadVersion):
			a.err = results[refused].Error
		default:
			a.err = errContended // in this queue, or there is no node because of another one
		}
	}
}

// created notes the node that the transaction has created in a queue.
func (g *together) created(i int, created, written zk.MultiResponse) {
	a := &g.joins[i]
	if written.Stat == nil {
		a.err = errors.New("server answered a write of the parent without its Stat")
		return
	}
	if a.err = a.place.setCreated(created.String, written.Stat.Mzxid); a.err != nil {
		return
	}
	a.parent = written.Stat
	g.queues[i].recordOwnNumber(a.place)
	g.session.Joined(a.place.Node)
}

// settle determines the outcome of each join, and undoes all of them unless all nodes stay.
func (g *together) settle(ctx context.Context) error {
	steps, errs := make([]joinStep, len(g.queues)), make([]error, len(g.queues))
	stays := 0
	for i, q := range g.queues {
		steps[i], errs[i] = q.nextStep(ctx, g.session, g.joins[i])
		if errs[i] == nil && steps[i] == stay {
			stays++
		}
	}
	if stays == len(g.queues) {
		for i, q := range g.queues {
			g.alone[i] = q.stayed(g.session, g.joins[i]) == 1
		}
		return nil
	}
	g.leave(func(i int) bool { return errs[i] == nil && (steps[i] == stay || steps[i].leaves()) })
	err := firstOf(errs)
	for i, q := range g.queues {
		if errs[i] == nil && !steps[i].leaves() && steps[i] != stay {
			q.undo(g.session, g.joins[i], steps[i])
		}
		if steps[i] == leaveOtherLife {
			q.forget()
		}
		if err == nil && g.joins[i].err != nil {
			err = &Error{Op: "join", Path: q.path, Err: g.joins[i].err}
		}
	}
	if err == nil {
		err = &Error{Op: "join", Path: g.queues[0].path, Err: errContended}
	}
	return g.apart(ctx, err)
}

// checkFirst fails if a contender is ahead in a queue: one that does not write the parent, such as
// one of another library, may have joined between the listing and the create.
func (g *together) checkFirst(ctx context.Context) error {
	for i, q := range g.queues {
		if g.alone[i] {
			continue
		}
		if err := q.checkFirst(ctx, g.session, g.joins[i].place); err != nil {
			return err
		}
	}
	return nil
}

// leave deletes the nodes of the queues that which selects, all at the same time, as a failed Claim
// does.
func (g *together) leave(which func(i int) bool) {
	var leaving sync.WaitGroup
	for i, q := range g.queues {
		if which(i) {
			leaving.Go(func() { q.abandon(g.session, g.joins[i].place) })
		}
	}
	leaving.Wait()
}
