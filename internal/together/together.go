// SPDX-License-Identifier: Apache-2.0

// Package together takes the claims of several queues in one transaction.
package together

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
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// maxTogether is how many queues one transaction joins at most. With records of the greatest size it
// stays below half of what a server accepts. The paths may have the other half.
const maxTogether = 64

// ErrApart is returned by Claim when one transaction cannot take all claims, because a queue
// has a contender for instance. Nothing is held or queued then: Claim one after another.
var ErrApart = errors.New("claims cannot be taken in one transaction")

// A Part is one of several claims that are taken together.
type Part struct {
	Queue *queue.Queue
	Mode  protocol.Mode
}

// Claim takes the claims of several queues of one client, with different paths, in one transaction, if no queue has a
// contender that conflicts. Otherwise it takes none, leaves no node, and returns an
// error for which errors.Is finds ErrApart. It waits for no contender, only for answers, and fails
// as Claim does.
//
// Nodes that one transaction creates have the same zxid, so the tokens of the claims are equal. Each
// is greater than those of all earlier claims of its path that conflict with it.
func Claim(ctx context.Context, parts ...Part) ([]*recipes.Claim, error) {
	return claimTogether(ctx, parts, func(g *together) ([]*recipes.Claim, error) { return g.claim(ctx) })
}

// Try is Claim for a caller that does not wait for the claims either way. If a contender conflicts with one of them,
// its error is the *BusyError of Queue.Try.
func Try(ctx context.Context, parts ...Part) ([]*recipes.Claim, error) {
	return claimTogether(ctx, parts, func(g *together) ([]*recipes.Claim, error) {
		g.try = true
		for lost := 0; ; lost++ {
			g.isLast = lost == queue.MaxLostRaces
			claims, err := g.claim(ctx)
			if ctx.Err() != nil || !errors.Is(err, queue.ErrContended) {
				return claims, err
			}
		}
	})
}

// claimTogether checks the arguments, and reports the claims that take returns.
func claimTogether(ctx context.Context, parts []Part, take func(*together) ([]*recipes.Claim, error)) ([]*recipes.Claim, error) {
	if err := checkTogether(ctx, parts); err != nil {
		return nil, err
	}
	n := len(parts)
	if n > maxTogether {
		return nil, fmt.Errorf("%w: %d are more than %d", ErrApart, n, maxTogether)
	}
	size := 0
	for _, p := range parts {
		size += 2 * len(p.Queue.Path())
	}
	if size > zkpath.MaxTransaction/2 {
		return nil, fmt.Errorf("%w: the paths take %d bytes of a transaction, and %d are the limit", ErrApart, size, zkpath.MaxTransaction/2)
	}
	c, began := parts[0].Queue.Client, time.Now()
	s, err := c.Session(ctx)
	if err != nil {
		return nil, &recipes.Error{Op: "claim", Path: parts[0].Queue.Path(), Err: sentinel.WithCtx(ctx, err)}
	}
	g := &together{
		session: s, queues: make([]*queue.Queue, n), modes: make([]protocol.Mode, n),
		joins: make([]queue.Attempt, n), versions: make([]int32, n), alone: make([]bool, n),
	}
	for i, part := range parts {
		g.queues[i], g.modes[i] = part.Queue, part.Mode
	}
	claims, err := take(g)
	if err != nil {
		return nil, err
	}
	for i, c := range claims {
		parts[0].Queue.Client.Report().Granted(g.queues[i].Path(), c.Path(), c.Token(), time.Since(began))
	}
	return claims, nil
}

// checkTogether returns an error for arguments of Claim that are invalid.
func checkTogether(ctx context.Context, parts []Part) error {
	if len(parts) == 0 {
		return &recipes.Error{Op: "claim", Err: errors.New("no queues")}
	}
	first := parts[0].Queue
	if ctx == nil {
		return &recipes.Error{Op: "claim", Path: first.Path(), Err: sentinel.ErrNilContext}
	}
	seen := make(map[string]bool, len(parts))
	for _, part := range parts {
		q := part.Queue
		if q.Client != first.Client {
			return &recipes.Error{Op: "claim", Path: q.Path(), Err: fmt.Errorf("belongs to another client than %s", first.Path())}
		}
		if q.Takeover != nil {
			return &recipes.Error{Op: "claim", Path: q.Path(), Err: errors.New("a queue with a lock-delay or a fence function is claimed alone")}
		}
		if err := q.CheckMode(part.Mode); err != nil {
			return err
		}
		if seen[q.Path()] {
			return &recipes.Error{Op: "claim", Path: q.Path(), Err: errors.New("given twice")}
		}
		seen[q.Path()] = true
	}
	return nil
}

// together is one attempt to take several claims at the same time. Its slices are by queue.
type together struct {
	session  *client.Session
	queues   []*queue.Queue
	modes    []protocol.Mode
	joins    []queue.Attempt
	versions []int32 // of the parents, when no contender conflicted; -1 for readers, whose joins need not be undisturbed
	alone    []bool  // the answer shows that the node has no predecessor

	try    bool // a contender that conflicts is the result
	isLast bool // of the attempts of a try: it only looks who has won the races
	lost   int  // index of the queue in which another contender has joined first
}

func (g *together) claim(ctx context.Context) ([]*recipes.Claim, error) {
	if err := g.look(ctx); err != nil {
		return nil, err
	}
	if err := g.join(ctx); err != nil {
		return nil, err
	}
	claims := make([]*recipes.Claim, len(g.queues))
	err := g.checkFirst(ctx)
	for i := range g.queues {
		if err == nil {
			claims[i], err = queue.Grant(ctx, g.session, g.joins[i].Place)
		}
	}
	if err == nil {
		return claims, nil
	}
	for _, c := range claims {
		if c != nil && claim.Of(c).End(sentinel.ErrReleased) {
			g.session.Nodes.Ungrant(claim.Of(c).Node())
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
	case g.try && errors.As(err, new(*recipes.BusyError)):
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
		err = &recipes.BusyError{Path: g.queues[g.lost].Path()}
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
	v, err := q.Learn(ctx, g.session)
	if err != nil {
		return err
	}
	lst, err := queue.List(ctx, g.session, q.Path())
	switch {
	case err != nil:
		return err
	case lst.Parent == nil:
		q.Relearn()
		return &recipes.Error{Op: "join", Path: q.Path(), Err: zk.ErrNoNode}
	case !v.Writable:
		return &recipes.Error{Op: "join", Path: q.Path(), Err: queue.ErrReadOnly}
	}
	if err := g.conflict(ctx, i, lst); err != nil {
		return err
	}
	g.joins[i].View, g.versions[i] = v, lst.Parent.Version
	if g.modes[i] == protocol.Read {
		g.versions[i] = -1
	}
	return nil
}

// conflict returns an error if the listing of a queue shows a contender that conflicts. A try reads the first one, to name it, and
// returns nil if none is left.
func (g *together) conflict(ctx context.Context, i int, lst *queue.Listing) error {
	q, mode := g.queues[i], g.modes[i]
	if !slices.ContainsFunc(lst.Members, func(m protocol.Member) bool { return m.Conflicts(mode) }) {
		return nil
	}
	if !g.try {
		return &recipes.Error{Op: "join", Path: q.Path(), Err: queue.ErrContended}
	}
	front, found, err := q.FrontFor(ctx, g.session, slices.Clone(lst.Members), mode)
	if err == nil && found {
		q.ObserveAt(front, time.Now())
		err = &recipes.BusyError{Path: q.Path(), Front: front}
	}
	return err
}

// join creates all nodes in one transaction, which is only carried out while no parent has been
// written since it was read, and each join of this library writes it. After an error there is
// none of the nodes, or it is being deleted.
func (g *together) join(ctx context.Context) error {
	mine, err := g.session.TakeTurn(ctx, session.Joining)
	if err != nil {
		return g.apart(ctx, &recipes.Error{Op: "join", Path: g.queues[0].Path(), Err: session.NotSent(err)})
	}
	var ops []any
	for i, q := range g.queues {
		e := q.SessionEntry(g.session, g.modes[i])
		p, _ := q.Place(g.session, g.joins[i].View, e, false) // no witness: names have a nonce
		g.session.Nodes.Register(p.Node)
		g.joins[i].Place = p
		ops = append(ops,
			p.Create(e.Data(p), e.ACL),
			&zk.SetDataRequest{Path: q.Path(), Data: []byte(protocol.ParentMark), Version: g.versions[i]},
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
			a.Err = err
		case refused == 2*i+1 && errors.Is(results[refused].Error, zk.ErrNoAuth):
			a.Err = queue.ErrReadOnly
		case refused == 2*i || refused == 2*i+1 && !errors.Is(results[refused].Error, zk.ErrBadVersion):
			a.Err = results[refused].Error
		default:
			a.Err = queue.ErrContended // in this queue, or there is no node because of another one
		}
	}
}

// created notes the node that the transaction has created in a queue.
func (g *together) created(i int, created, written zk.MultiResponse) {
	a := &g.joins[i]
	if written.Stat == nil {
		a.Err = errors.New("server answered a write of the parent without its Stat")
		return
	}
	if a.Err = a.Place.SetCreated(created.String, written.Stat.Mzxid); a.Err != nil {
		return
	}
	a.Parent = written.Stat
	g.queues[i].RecordOwnNumber(a.Place)
	g.session.Joined(a.Place.Node)
}

// settle determines the outcome of each join, and undoes all of them unless all nodes stay.
func (g *together) settle(ctx context.Context) error {
	steps, errs := make([]queue.JoinStep, len(g.queues)), make([]error, len(g.queues))
	stays := 0
	for i, q := range g.queues {
		steps[i], errs[i] = q.NextStep(ctx, g.session, g.joins[i])
		if errs[i] == nil && steps[i] == queue.Stay {
			stays++
		}
	}
	if stays == len(g.queues) {
		for i, q := range g.queues {
			g.alone[i] = q.Stayed(g.session, g.joins[i]) == 1
		}
		return nil
	}
	g.leave(func(i int) bool { return errs[i] == nil && (steps[i] == queue.Stay || steps[i].Leaves()) })
	err := firstOf(errs)
	for i, q := range g.queues {
		if errs[i] == nil && !steps[i].Leaves() && steps[i] != queue.Stay {
			q.Undo(g.session, g.joins[i], steps[i])
		}
		if steps[i] == queue.LeaveOtherLife {
			q.Relearn()
		}
		if err == nil && g.joins[i].Err != nil {
			err = &recipes.Error{Op: "join", Path: q.Path(), Err: g.joins[i].Err}
		}
	}
	if err == nil {
		err = &recipes.Error{Op: "join", Path: g.queues[0].Path(), Err: queue.ErrContended}
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
		if err := q.CheckFirst(ctx, g.session, g.joins[i].Place); err != nil {
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
			leaving.Go(func() { q.Discard(g.session, g.joins[i].Place) })
		}
	}
	leaving.Wait()
}
