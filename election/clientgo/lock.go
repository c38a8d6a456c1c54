// SPDX-License-Identifier: Apache-2.0

package clientgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockkeeper/lockkeeper/election"
)

// errNotElected is why client-go cannot take or renew the lock: this process does not lead.
var errNotElected = errors.New("this candidate does not lead")

// A Lock is a resourcelock.Interface: client-go's elector, or the one of controller-runtime's manager, finds the lock free
// when the election has granted this process a term, and held by the leader until then. All methods are safe for concurrent
// use, for one elector at a time.
//
// The election decides which process leads. Of the elector's durations only RetryPeriod matters: it asks so often, and
// work begins up to 2.2 RetryPeriod after the grant. It detects a lost term RenewDeadline later, when another process may have
// led for long: work must end with Context.
type Lock struct {
	election *election.Election
	identity string
	asked    func() // begins the campaign; further calls do nothing
	base     context.Context

	mu     sync.Mutex
	term   *election.Term                    // nil before the grant; guarded by mu
	record resourcelock.LeaderElectionRecord // of the elector, while term is set; guarded by mu
}

var _ resourcelock.Interface = (*Lock)(nil)

// WithLock calls f with a lock that the election decides. The process campaigns from the first time that an elector asks for the
// lock; identity is its name for the elector, as a rule Owner of election.Options. The context of f is done when ctx is, when the
// term is lost or handed over, when Options.Health failed, or when the process cannot campaign. f must return then.
//
// WithLock resigns after f has returned, with or without ReleaseOnCancel, so that no work of f overlaps the next leader's unless
// the term was lost. A manager's Start returns while Runnables work if GracefulShutdownTimeout ends: exit the process then, within f. It
// leads for one term: call it again for the next, or restart the process, since a manager starts once.
//
// WithLock returns the error of f, joined with the errors of Election.Run and with the reason why the term ended before f: it
// matches recipes.ErrLost if the term was lost.
func WithLock(ctx context.Context, e *election.Election, identity string, f func(ctx context.Context, lock *Lock) error) error {
	campaign, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	base, lose := context.WithCancelCause(context.WithoutCancel(ctx))
	defer lose(nil)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	asked := make(chan struct{})
	l := &Lock{election: e, identity: identity, asked: sync.OnceFunc(func() { close(asked) }), base: base}

	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-asked:
			ended <- l.campaign(campaign, func(err error) { lose(err); cancel(err) })
		case <-campaign.Done():
			ended <- nil
		}
	}()
	defer func() { stop(); <-done }() // also if f panics
	err := f(ctx, l)
	stop()
	return errors.Join(err, <-ended)
}

// campaign campaigns, and leads until ctx is done. It calls end with the reason if it cannot lead any longer while f runs.
func (l *Lock) campaign(ctx context.Context, end func(error)) error {
	early := make(chan error, 1) // gets why the term ended, if it ended before f
	err := l.election.Run(ctx, func(term context.Context, t *election.Term) error {
		l.lead(t)
		<-term.Done()
		if ctx.Err() == nil {
			early <- context.Cause(term)
			end(context.Cause(term))
			<-ctx.Done() // f has returned
		}
		return nil
	})
	if ctx.Err() == nil {
		end(err)
	}
	select {
	case cause := <-early:
		return errors.Join(err, cause)
	default:
		return err
	}
}

func (l *Lock) lead(term *election.Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
}

// Context returns a context for the leader's work. It is done when the term ends before f has returned; context.Cause then
// returns why. Pass the method as BaseContext of manager.Options: otherwise a manager whose context is done cancels the
// leader's Runnables only after all others have returned. It keeps this order when only the ctx of WithLock is done.
func (l *Lock) Context() context.Context { return l.base }

// Get returns the record of this process if it leads, and otherwise one that names the leader, which does not expire.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.asked()
	record, leads := l.own()
	if !leads {
		leader, err := l.election.Leader(ctx)
		if err != nil && !errors.Is(err, election.ErrNoLeader) {
			return nil, nil, err
		}
		record.HolderIdentity = leader.Owner
		if leader.Owner == "" || leader.Owner == l.identity {
			record.HolderIdentity = "(being elected)" // an elector would try to take a lock without a holder, or its own
		}
		record.LeaseDurationSeconds = math.MaxInt32 // the elector would try, in vain, to take the lock of one that has expired
	}
	raw, err := json.Marshal(record)
	return &record, raw, err
}

// own returns the record of this process, whose holder is empty until the elector has taken the lock, and whether it leads.
func (l *Lock) own() (record resourcelock.LeaderElectionRecord, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil || l.term.Err() != nil {
		return record, false
	}
	return l.record, true
}

// Create is not called, because Get finds a record. It does as Update does.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update takes, renews or releases the lock. It sends nothing, and returns an error if this process does not lead.
func (l *Lock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.asked()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.term == nil {
		return fmt.Errorf("update lock %s: %w", l.Describe(), errNotElected)
	}
	if err := l.term.Err(); err != nil {
		return err
	}
	l.record = record
	return nil
}

// RecordEvent does nothing: the events of the election are in Trace of recipes.Options.
func (l *Lock) RecordEvent(string) {}

// Identity returns the identity.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the election's path.
func (l *Lock) Describe() string { return l.election.Path() }
