// SPDX-License-Identifier: Apache-2.0

// Package together takes the claims of several queues in one transaction.
package together

import (
	"cmp"
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

// maxTogether is how many queues one transaction joins at most. With long paths and owners it joins fewer.
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
// is greater than the tokens of all earlier claims of its path that conflict with it.
func Claim(ctx context.Context, parts ...Part) ([]*recipes.Claim, error) {
	return claimTogether(ctx, parts, func(g *together) ([]*recipes.Claim, error) { return g.claim(ctx) })
}

// Try is Claim for a caller that does not wait for the claims either way. If a contender conflicts with one of them,
// its error is the *BusyError of Queue.Try, and is reported as there. Other errors are not reported: the caller claims one after
// another, which meets the cause again and reports it.
func Try(ctx context.Context, parts ...Part) ([]*recipes.Claim, error) {
	began := time.Now()
	claims, err := claimTogether(ctx, parts, func(g *together) ([]*recipes.Claim, error) {
		g.try = true
		for lost := 0; ; lost++ {
			g.isLast = lost == queue.MaxLostRaces
			claims, err := g.claim(ctx)
			if ctx.Err() != nil || !errors.Is(err, queue.ErrContended) {
				return claims, err
			}
		}
	})
	if busy := (*recipes.BusyError)(nil); errors.As(err, &busy) {
		parts[0].Queue.Client.Report().Failed(ctx, busy.Path, time.Since(began), err)
	}
	return claims, err
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
		size += p.Queue.JoinSize()
	}
	if size > zkpath.MaxTransaction {
		return nil, fmt.Errorf("%w: they take %d bytes of a transaction, and %d are the limit", ErrApart, size, zkpath.MaxTransaction)
	}
	c, began := parts[0].Queue.Client, time.Now()
	s, err := c.Session(ctx)
	if err != nil {
		return nil, &recipes.Error{Op: "claim", Path: parts[0].Queue.Path(), Err: sentinel.WithCtx(ctx, err)}
	}
	claims, err := take(&together{session: s, parts: parts, joins: make([]*queue.Attempt, n)})
	if err != nil {
		return nil, err
	}
	for i, claimed := range claims {
		c.Report().Granted(ctx, parts[i].Queue.Path(), claimed.Path(), claimed.Token(), time.Since(began))
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
	session *client.Session
	parts   []Part
	joins   []*queue.Attempt

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
	claims := make([]*recipes.Claim, len(g.joins))
	err := g.checkFirst(ctx)
	for i := range claims {
		if err == nil {
			claims[i], err = g.parts[i].Queue.Grant(ctx, g.session, g.joins[i].Place)
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
	g.undo()
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

// look fails unless no contender conflicts and the parents may be written.
func (g *together) look(ctx context.Context) error {
	indexes, errs := make([]int, len(g.parts)), make([]error, len(g.parts))
	for i := range indexes {
		indexes[i] = i
	}
	err := session.Each(g.session.Session, indexes, func(i int) { errs[i] = g.lookAt(ctx, i) })
	if err = firstOf(append(errs, err)); err == nil && g.isLast {
		err = &recipes.BusyError{Path: g.parts[g.lost].Queue.Path()}
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
	q, mode := g.parts[i].Queue, g.parts[i].Mode
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
	if err := g.conflict(ctx, g.parts[i], lst); err != nil {
		return err
	}
	version := lst.Parent.Version // of the moment at which no contender conflicted
	if mode == protocol.Read {
		version = -1 // the join of a reader need not be undisturbed
	}
	// No witness is checked: names have a nonce.
	g.joins[i] = &queue.Attempt{Queue: q, Entry: q.SessionEntry(g.session, mode), View: v, Version: version}
	return nil
}

// conflict returns an error if the listing of a queue shows a contender that conflicts. A try reads the first one, to name it, and
// returns nil if none is left.
func (g *together) conflict(ctx context.Context, p Part, lst *queue.Listing) error {
	if !slices.ContainsFunc(lst.Members, func(m protocol.Member) bool { return m.Conflicts(p.Mode) }) {
		return nil
	}
	if !g.try {
		return &recipes.Error{Op: "join", Path: p.Queue.Path(), Err: queue.ErrContended}
	}
	front, found, err := p.Queue.FrontFor(ctx, g.session, slices.Clone(lst.Members), p.Mode)
	if err == nil && found {
		p.Queue.ObserveAt(front, time.Now())
		err = &recipes.BusyError{Path: p.Queue.Path(), Front: front}
	}
	return err
}

// join creates all nodes in one transaction, which is only carried out while no parent has been
// written since it was read, and each join of this library writes it. After an error there is
// none of the nodes, or it is being deleted.
func (g *together) join(ctx context.Context) error {
	if err := queue.Send(ctx, g.session, g.joins...); err != nil {
		return g.apart(ctx, err)
	}
	errs := make([]error, len(g.joins))
	for i, a := range g.joins {
		errs[i] = a.FindOut(ctx, g.session)
	}
	if slices.ContainsFunc(g.joins, func(a *queue.Attempt) bool { return !a.Stays() }) {
		g.lost = max(0, slices.IndexFunc(g.joins, func(a *queue.Attempt) bool { return a.Refused }))
		g.undo()
		return g.apart(ctx, cmp.Or(firstOf(errs), g.refusal()))
	}
	for _, a := range g.joins {
		a.Stay(g.session)
	}
	return nil
}

// refusal returns the error of the join that failed. The others report ErrContended: they have no node because of it.
func (g *together) refusal() error {
	for _, a := range g.joins {
		if a.Err != nil && !errors.Is(a.Err, queue.ErrContended) {
			return &recipes.Error{Op: "join", Path: a.Queue.Path(), Err: a.Err}
		}
	}
	return &recipes.Error{Op: "join", Path: g.joins[g.lost].Queue.Path(), Err: queue.ErrContended}
}

// undo deletes the nodes, all at the same time, as a failed Claim does.
func (g *together) undo() {
	var leaving sync.WaitGroup
	for _, a := range g.joins {
		leaving.Go(func() { a.Undo(g.session) })
	}
	leaving.Wait()
}

// checkFirst fails if a contender is ahead in a queue: one that does not write the parent, such as
// one of another library, may have joined between the listing and the create.
func (g *together) checkFirst(ctx context.Context) error {
	for _, a := range g.joins {
		if a.Alone() {
			continue
		}
		if err := a.Queue.CheckFirst(ctx, g.session, a.Place); err != nil {
			return err
		}
	}
	return nil
}
