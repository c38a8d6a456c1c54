// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// cancelWaiters cancels all waiters of a path at the same time. They join again soon after.
func cancelWaiters(_ context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	for _, c := range r.contenders {
		c.send(worker.Cancel + " " + args[0])
	}
	return nothingToHeal, nil
}

// expireSessions ends all sessions of a contender at the same time, as an operator can who knows their ids. All waiters of the
// contender then join again at the same time.
func expireSessions(ctx context.Context, r *run, args []string, _ time.Duration) (heal, error) {
	if r.operator == nil {
		return nil, docker.ErrUnsupported
	}
	c, err := r.contender(args[0])
	if err != nil {
		return nil, err
	}
	return r.reservations.reserved(c.linksTarget(), func() (heal, error) { // the operator uses its own connection; the reservation excludes other faults
		var mu sync.Mutex // guards ended
		ended := 0
		var ending sync.WaitGroup
		for _, session := range c.current().takeSessions() {
			ending.Go(func() {
				r.recorder.add(history.Event{At: r.time.Now(), Kind: history.Expiring, Session: session})
				switch err := r.operator.expire(ctx, session); {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					ended++
				case !errors.Is(err, docker.ErrNoSession):
					c.current().addSession(session) // the server may be down
				}
			})
		}
		ending.Wait()
		if ended == 0 {
			return nil, fmt.Errorf("no session of %s could be ended: %w", c.processTarget(), errMissed)
		}
		return nothingToHeal, nil
	})
}

// takeSessions returns the sessions that a process has reported since the last call.
func (p *process) takeSessions() (all []history.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for session := range p.sessions {
		all = append(all, session)
	}
	clear(p.sessions)
	return all
}

// addSession records that a process has a session.
func (p *process) addSession(session history.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions == nil {
		p.sessions = map[history.ID]bool{}
	}
	p.sessions[session] = true
}

// expire ends a session of another client. The session's client then finds that its session has expired.
func (o *operator) expire(ctx context.Context, session history.ID) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	mark := func(ended bool) (before bool) {
		o.mu.Lock()
		defer o.mu.Unlock()
		before, o.ended[int64(session)] = o.ended[int64(session)], ended
		return before
	}
	before := mark(true) // before the servers carry it out, so that the operator is never missing as the cause
	err := o.expireSession(ctx, int64(session))
	if errors.Is(err, docker.ErrNoSession) {
		mark(before)
	}
	if err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	return nil
}

// expiredSessions returns the sessions of contenders that the operator ended, or may have.
func (o *operator) expiredSessions() (all []history.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for session, ended := range o.ended {
		if ended {
			all = append(all, history.ID(session))
		}
	}
	return all
}
