// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Operation is what a worker requests, and how long it holds it.
type Operation struct {
	Kind string        // one of operations
	Path string        // of the lock or election; of several locks, the paths
	Hold time.Duration // how long the work takes
	Wait time.Duration // how long it waits for the grant, 0 without limit; of "run", how long it runs
}

// operations contains the kinds of operations by name. Each file of a recipe adds its own.
var operations = map[string]operation{}

// An operation is a kind of Operation.
type operation struct {
	acquire acquirer
	during  func(*Process, history.Event, *grant, Operation) // the work under the grant

	all func(*Process, Operation) error // replaces both, from the request to the release; nil for most
}

// An acquirer requests a grant.
type acquirer func(*Process, context.Context, Operation) (grant, error)

// "busy" is "lock" with continuous writes, and "slowlock" is "lock" with work that takes longer than T/4 to stop after a loss.
func init() {
	operations["lock"] = operation{acquire: locking((*lock.Mutex).Lock), during: (*Process).workUnder}
	operations["try"] = operation{acquire: locking((*lock.Mutex).TryLock), during: (*Process).workUnder}
	operations["busy"] = operation{acquire: locking((*lock.Mutex).Lock), during: (*Process).busy}
	operations["slowlock"] = operation{acquire: locking((*lock.Mutex).Lock), during: (*Process).workSlowly}
	operations["campaign"] = operation{acquire: (*Process).campaign, during: (*Process).workUnder}
	operations["run"] = operation{all: (*Process).run}
}

// A grant is a hold of a lock or a term of an election.
type grant struct {
	*recipes.Claim
	release   func(context.Context) error
	downgrade func(context.Context) error // nil unless it can be downgraded
	term      *election.Term              // nil for a lock
	hold      *lock.Hold                  // of a Mutex, otherwise nil
	number    string                      // of a slot, otherwise empty
}

// do runs an operation to its end. It returns the error of the request for the grant.
func (p *Process) do(o Operation) error {
	kind := operations[o.Kind]
	if kind.all != nil {
		return kind.all(p, o)
	}
	ctx, cancel := p.within(o.Wait)
	defer cancel()
	by, ok := p.recordAsked(o)
	if !ok {
		return nil
	}
	got, err := kind.acquire(p, ctx, o)
	if err != nil {
		p.recordFailed(by, err)
		if p.crashed() {
			return nil // a crashed process reports nothing
		}
		return err
	}
	by.Shared, by.Number = got.Shared(), got.number
	notified, ok := p.recordGranted(by, got.Claim)
	if !ok {
		return nil
	}
	kind.during(p, by, &got, o)
	if !p.record(by, history.Releasing) {
		return nil
	}
	err = got.release(p.ctx)
	p.recordReleased(by, err)
	<-notified
	if !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrUncertain) {
		p.world.must(err)
	}
	return nil
}

// within returns a context of the process that ends after wait, or not at all if wait is 0.
func (p *Process) within(wait time.Duration) (context.Context, context.CancelFunc) {
	if wait == 0 {
		return p.ctx, func() {}
	}
	return context.WithTimeout(p.ctx, wait)
}

// workUnder works under a grant.
func (p *Process) workUnder(by history.Event, got *grant, o Operation) {
	p.work(p.ctx, by, got.Claim, withoutEpoch(got.Claim), o.Hold)
}

// busy works under a grant, and writes state continuously.
func (p *Process) busy(by history.Event, got *grant, o Operation) {
	p.writeContinuously(by, got.Claim)
	p.workUnder(by, got, o)
}

// workSlowly works under a grant. If it is lost, the work takes 3T/8 to stop.
func (p *Process) workSlowly(by history.Event, got *grant, o Operation) {
	p.workUnder(by, got, o)
	if got.Err() != nil {
		time.Sleep(p.world.fraction(8) * 3)
	}
}

// recordAsked records that the process is about to request a grant. by has the fields of the attempt's later events.
func (p *Process) recordAsked(o Operation) (by history.Event, ok bool) {
	by = history.Event{Contender: p.name, Attempt: p.world.recorder.NextAttempt(), Path: o.Path}
	return by, p.recordRequest(by, o.Kind, 0)
}

// recordRequest records the request of an attempt. together is the first attempt of a request for several locks.
func (p *Process) recordRequest(by history.Event, kind string, together int) (ok bool) {
	asked := by
	asked.Text, asked.Together = kind, together
	return p.record(asked, history.Asked)
}

// promisedErrors contains the only errors that a request may return. errFence is one of a fence function of the simulation.
var promisedErrors = []error{
	lock.ErrLocked, recipes.ErrLost, recipes.ErrUncertain, recipes.ErrClosed, context.Canceled, context.DeadlineExceeded,
	errFence,
}

// recordFailed records that a request returned an error, which must be one of promisedErrors.
func (p *Process) recordFailed(by history.Event, err error) {
	if !slices.ContainsFunc(promisedErrors, func(known error) bool { return errors.Is(err, known) }) {
		p.world.problemf("attempt %d of %s: undocumented error: %w", by.Attempt, by.Contender, err)
	}
	by.Error = err.Error()
	p.record(by, history.Failed)
}

// recordReleased records that a release has returned.
func (p *Process) recordReleased(by history.Event, err error) {
	if err != nil {
		by.Error = err.Error()
	}
	p.record(by, history.Released)
}

// locking returns a function that requests a grant of a mutex.
func locking(take func(*lock.Mutex, context.Context) (*lock.Hold, error)) acquirer {
	return func(p *Process, ctx context.Context, o Operation) (grant, error) {
		m, err := p.mutex(o.Path)
		if err != nil {
			return grant{}, err
		}
		return grantOf(take(m, ctx))
	}
}

// grantOf returns the grant of a hold, if err is nil.
func grantOf(hold *lock.Hold, err error) (grant, error) {
	if err != nil {
		return grant{}, err
	}
	return grant{Claim: hold.Claim, release: hold.Unlock, hold: hold}, nil
}

// campaign requests a term of an election.
func (p *Process) campaign(ctx context.Context, o Operation) (grant, error) {
	e, err := p.election(o.Path)
	if err != nil {
		return grant{}, err
	}
	term, err := e.Campaign(ctx)
	if err != nil {
		return grant{}, err
	}
	p.handOverLater(term)
	return grant{Claim: term.Claim, release: term.Resign, term: term}, nil
}

// recordGranted records a grant and later its end; notified is closed when that is recorded. ok is false if the process has
// crashed.
func (p *Process) recordGranted(by history.Event, claim *recipes.Claim) (notified <-chan struct{}, ok bool) {
	return p.recordGrantedAs(by, claim, claim)
}

// A holding ends when its Done is closed, with the error Err: a claim, or a hold of several locks.
type holding interface {
	Done() <-chan struct{}
	Err() error
}

// recordGrantedAs is recordGranted for a claim of a holding.
func (p *Process) recordGrantedAs(by history.Event, claim *recipes.Claim, of holding) (notified <-chan struct{}, ok bool) {
	// While the claim has not ended, the client's newest session is the claim's: a session that ends closes its claims
	// before the client opens another.
	if session := p.client.SessionID(); claim.Err() == nil {
		by.Session = history.ID(session)
	}
	granted := by
	granted.Node, granted.Token = claim.Path(), history.ID(claim.Token())
	if !p.record(granted, history.Granted) {
		return nil, false
	}
	p.world.checkTurn(granted)
	by.Session = 0
	ended := make(chan struct{})
	p.working.Go(func() {
		defer close(ended)
		<-of.Done()
		by.Cause = causeOf(of.Err())
		p.record(by, history.Notified)
	})
	return ended, true
}

// causeOf returns the cause of a claim's end by its error.
func causeOf(err error) history.Cause {
	for cause, is := range map[history.Cause]error{
		history.Expired: recipes.ErrSessionExpired, history.Deadline: recipes.ErrDeadline, history.Removed: recipes.ErrDeleted,
		history.GivenUp: recipes.ErrReleased, history.ClientShut: recipes.ErrClosed,
		history.Revoked: recipes.ErrRevoked,
	} {
		if errors.Is(err, is) {
			return cause
		}
	}
	return history.Cause(fmt.Sprint(err))
}

// work writes to the registers and to the ensemble for d, or until it knows that it lost the lock. At the end it writes once
// more to the fenced register, even if it lost the lock, and to the ensemble during the release. Without a committer, which
// means that it could not claim an epoch, it does nothing.
func (p *Process) work(ctx context.Context, by history.Event, claim *recipes.Claim, write *committer, d time.Duration) {
	if write == nil {
		return
	}
	fenced, bare := p.world.register(by.Path, by.Number, true), p.world.register(by.Path, by.Number, false)
	defer func() {
		if p.waitRunning() {
			fenced.write(by, claim.Token())
			p.working.Go(func() { p.commit(p.ctx, by, claim, write) })
		}
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	pace := time.NewTicker(max(d/4, p.world.opts.Timeout/16))
	defer pace.Stop()
	for first := true; claim.Err() == nil; first = false {
		if !p.waitRunning() { // tokens protect against a pause here
			return
		}
		fenced.write(by, claim.Token())
		bare.write(by, claim.Token())
		if first {
			p.commit(ctx, by, claim, write)
		} else {
			p.working.Go(func() { p.commit(p.ctx, by, claim, write) })
		}
		select {
		case <-pace.C:
		case <-timer.C:
			return
		case <-claim.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// writeContinuously writes state until the claim ends, without waiting for the answers.
func (p *Process) writeContinuously(by history.Event, claim *recipes.Claim) {
	p.working.Go(func() {
		pace := time.NewTicker(p.world.opts.Timeout / 32)
		defer pace.Stop()
		for p.waitRunning() {
			select {
			case <-pace.C:
				p.working.Go(func() { p.commit(p.ctx, by, claim, withoutEpoch(claim)) })
			case <-claim.Done():
				return
			case <-p.ctx.Done():
				return
			}
		}
	})
}

// run runs election.Run for o.Wait.
func (p *Process) run(o Operation) error {
	e, err := p.election(o.Path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, max(o.Wait, 1))
	defer cancel()
	by, ok := p.recordAsked(o)
	if !ok {
		return nil
	}
	err = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		if _, ok := p.recordGranted(by, term.Claim); !ok {
			<-ctx.Done() // a crashed process does not end its work
			return nil
		}
		p.handOverLater(term)
		p.work(ctx, by, term.Claim, withoutEpoch(term.Claim), o.Hold)
		if p.record(by, history.Releasing) {
			by, _ = p.recordAsked(o)
		}
		return nil
	})
	ended := err
	if ended == nil {
		ended = ctx.Err()
	}
	p.recordFailed(by, ended)
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// runDo runs lock.Mutex.Do, and records its grant and its end.
func (p *Process) runDo(ctx context.Context, path string, work func(context.Context, fencing.Token)) error {
	m, err := p.mutex(path)
	if err != nil {
		return err
	}
	by, _ := p.recordAsked(Operation{Kind: "do", Path: path})
	got := false
	err = m.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
		token := hold.Token()
		got = true
		granted := by
		granted.Token = history.ID(token)
		p.record(granted, history.Granted)
		defer func() {
			p.record(by, history.Releasing)
			ended := by
			ended.Cause = history.GivenUp
			if ctx.Err() != nil {
				ended.Cause = causeOf(context.Cause(ctx))
			}
			p.record(ended, history.Notified)
		}()
		work(ctx, token)
		return nil
	})
	if got {
		p.recordReleased(by, err)
	} else {
		p.recordFailed(by, err)
	}
	return err
}

// A committer commits operations in ZooKeeper, of a claim or of an epoch.
type committer struct {
	epoch  int64 // 0 without one
	commit func(ctx context.Context, ops ...any) ([]zk.MultiResponse, error)
}

// withoutEpoch returns the committer of a claim.
func withoutEpoch(claim *recipes.Claim) *committer { return &committer{commit: claim.Commit} }

// errFence is the error of a fence function that fails.
var errFence = errors.New("the former holder cannot be reached")
