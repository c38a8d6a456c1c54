// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An Ask is what a contender asks for, and what it does with it.
type Ask struct {
	How  string        // one of ways
	Path string        // of the lock or election
	Hold time.Duration // how long the work takes
	Wait time.Duration // how long it waits to be granted, 0 for ever; of "run", how long it runs
}

// ways are those to ask: "busy" is "lock" with much traffic meanwhile, "reign" is "campaign" with an epoch.
var ways = []string{"lock", "busy", "try", "campaign", "run", "reign"}

// possession is what a lock's hold and an election's term have in common.
type possession struct {
	*recipes.Claim
	giveUp func(context.Context) error
}

// do carries an ask out, to its end. Its error is what came of the asking.
func (p *Process) do(a Ask) error {
	if a.How == "run" {
		return p.run(a)
	}
	by, ok := p.ask(a)
	if !ok {
		return nil
	}
	ctx := p.ctx
	if a.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Wait)
		defer cancel()
	}
	got, err := p.acquire(ctx, a)
	if err != nil {
		p.failed(by, err)
		if p.crashed() {
			return nil // nobody hears of it
		}
		return err
	}
	told, ok := p.granted(by, got.Claim)
	if !ok {
		return nil
	}
	if a.How == "busy" {
		p.chatter(by, got.Claim)
	}
	write := plainly(got.Claim)
	if a.How == "reign" {
		write = p.inEpoch(p.ctx, by, got.Claim)
	}
	p.work(p.ctx, by, got.Claim, write, a.Hold)
	if !p.tell(by, history.Releasing) {
		return nil
	}
	err = got.giveUp(p.ctx)
	p.released(by, err)
	<-told
	if !errors.Is(err, recipes.ErrLost) && !errors.Is(err, recipes.ErrUncertain) {
		p.world.must(err)
	}
	return nil
}

// ask notes that the process is about to ask for something. by is what it notes of it from then on.
func (p *Process) ask(a Ask) (by history.Event, ok bool) {
	by = history.Event{Contender: p.name, Attempt: p.world.recorder.NextAttempt(), Path: a.Path}
	asked := by
	asked.Text = a.How
	return by, p.tell(asked, history.Asked)
}

// owed are the errors that whoever asks is promised, and no others.
var owed = []error{
	lock.ErrLocked, recipes.ErrLost, recipes.ErrUncertain, recipes.ErrClosed, context.Canceled, context.DeadlineExceeded,
}

func (p *Process) failed(by history.Event, err error) {
	if !slices.ContainsFunc(owed, func(known error) bool { return errors.Is(err, known) }) {
		p.world.failf("%s, attempt %d: an error that nobody who asks should get: %w", by.Contender, by.Attempt, err)
	}
	by.Error = err.Error()
	p.tell(by, history.Failed)
}

func (p *Process) released(by history.Event, err error) {
	if err != nil {
		by.Error = err.Error()
	}
	p.tell(by, history.Released)
}

// acquire asks the recipes.
func (p *Process) acquire(ctx context.Context, a Ask) (possession, error) {
	if a.How == "campaign" || a.How == "reign" {
		e, err := p.election(a.Path)
		if err != nil {
			return possession{}, err
		}
		term, err := e.Campaign(ctx)
		if err != nil {
			return possession{}, err
		}
		return possession{term.Claim, term.Resign}, nil
	}
	m, err := p.mutex(a.Path)
	if err != nil {
		return possession{}, err
	}
	var hold *lock.Hold
	switch a.How {
	case "lock", "busy":
		hold, err = m.Lock(ctx)
	case "try":
		hold, err = m.TryLock(ctx)
	default:
		return possession{}, fmt.Errorf("simulation: no way to ask %q", a.How)
	}
	if err != nil {
		return possession{}, err
	}
	return possession{hold.Claim, hold.Unlock}, nil
}

// granted notes a grant, and has noted when it ends: told is closed once it has. ok is false if the process crashed.
func (p *Process) granted(by history.Event, claim *recipes.Claim) (told <-chan struct{}, ok bool) {
	// The client's newest session is that of the claim as long as the claim has not ended: a session that is over ends
	// its claims before there is another.
	if session := p.client.SessionID(); claim.Err() == nil {
		by.Session = history.ID(session)
	}
	granted := by
	granted.Node, granted.Token = claim.Path(), history.ID(claim.Token())
	if !p.tell(granted, history.Granted) {
		return nil, false
	}
	by.Session = 0
	over := make(chan struct{})
	p.working.Go(func() {
		defer close(over)
		<-claim.Done()
		by.Cause = causeOf(claim.Err())
		p.tell(by, history.Told)
	})
	return over, true
}

func causeOf(err error) history.Cause {
	for cause, is := range map[history.Cause]error{
		history.Expired: recipes.ErrSessionExpired, history.Deadline: recipes.ErrDeadline, history.Removed: recipes.ErrDeleted,
		history.GivenUp: recipes.ErrReleased, history.ClientShut: recipes.ErrClosed,
	} {
		if errors.Is(err, is) {
			return cause
		}
	}
	return history.Cause(fmt.Sprint(err))
}

// work does what the lock is for: it writes to the registers, as long as it believes that it holds the lock, for d. In
// the end it writes once more to the one that checks tokens, whatever it believes, and to the ensemble while the lock is
// given up. Without a way to write to the ensemble it has no epoch, and does nothing.
func (p *Process) work(ctx context.Context, by history.Event, claim *recipes.Claim, write *writer, d time.Duration) {
	if write == nil {
		return
	}
	fenced, bare := p.world.register(by.Path, true), p.world.register(by.Path, false)
	defer func() {
		if p.step() {
			fenced.write(by, claim.Token())
			p.working.Go(func() { p.commit(p.ctx, by, claim, write) })
		}
	}()
	over := time.NewTimer(d)
	defer over.Stop()
	pace := time.NewTicker(max(d/4, p.world.opts.Timeout/16))
	defer pace.Stop()
	for first := true; claim.Err() == nil; first = false {
		if !p.step() { // a pause here is what tokens are for
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
		case <-over.C:
			return
		case <-claim.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// chatter writes state all the time, as long as the claim lasts, and does not wait for the answers.
func (p *Process) chatter(by history.Event, claim *recipes.Claim) {
	p.working.Go(func() {
		pace := time.NewTicker(p.world.opts.Timeout / 32)
		defer pace.Stop()
		for p.step() {
			select {
			case <-pace.C:
				p.working.Go(func() { p.commit(p.ctx, by, claim, plainly(claim)) })
			case <-claim.Done():
				return
			case <-p.ctx.Done():
				return
			}
		}
	})
}

// run campaigns again and again, for a.Wait.
func (p *Process) run(a Ask) error {
	e, err := p.election(a.Path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(p.ctx, max(a.Wait, 1))
	defer cancel()
	by, ok := p.ask(a)
	if !ok {
		return nil
	}
	err = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		if _, ok := p.granted(by, term.Claim); !ok {
			<-ctx.Done() // it is gone, and does not even stop
			return nil
		}
		p.work(ctx, by, term.Claim, plainly(term.Claim), a.Hold)
		if p.tell(by, history.Releasing) {
			by, _ = p.ask(a)
		}
		return nil
	})
	ended := err
	if ended == nil {
		ended = ctx.Err()
	}
	p.failed(by, ended)
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// runDo runs lock.Mutex.Do, whose work gets the token and a context.
func (p *Process) runDo(ctx context.Context, path string, work func(context.Context, fencing.Token)) error {
	m, err := p.mutex(path)
	if err != nil {
		return err
	}
	by, _ := p.ask(Ask{How: "do", Path: path})
	got := false
	err = m.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
		token := hold.Token()
		got = true
		granted := by
		granted.Token = history.ID(token)
		p.tell(granted, history.Granted)
		defer func() {
			p.tell(by, history.Releasing)
			over := by
			over.Cause = history.GivenUp
			if ctx.Err() != nil {
				over.Cause = causeOf(context.Cause(ctx))
			}
			p.tell(over, history.Told)
		}()
		work(ctx, token)
		return nil
	})
	if got {
		p.released(by, err)
	} else {
		p.failed(by, err)
	}
	return err
}
