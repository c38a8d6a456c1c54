// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// sickAfter is how long a term lasts until the leader's health check fails, and checkEvery the interval and the timeout of
// the checks.
const sickAfter, checkEvery = time.Second, 250 * time.Millisecond

// failing is a health check that fails.
func failing(context.Context) error { return errors.New("sick") }

// blocked is a health check that does not answer.
func blocked(ctx context.Context) error { <-ctx.Done(); return nil }

// mustEndUnhealthy runs an election whose work lasts until its context is done, and whose health checks fail as sick does from
// sickAfter in its first term on. Run must end the term for that reason, after one interval and one timeout at most; a term
// that is lost before is followed by another one.
func (p *Process) mustEndUnhealthy(sick func(context.Context) error) {
	var fails atomic.Pointer[time.Time] // nil before the first term
	healthy := func(ctx context.Context) error {
		if from := fails.Load(); !p.waitRunning() || from == nil || time.Now().Before(*from) {
			return nil
		}
		return sick(ctx)
	}
	e, err := election.New(p.client, lockPath, &election.Options{
		Owner: p.name, CoolDown: 50 * time.Millisecond, Health: healthy, HealthInterval: checkEvery, HealthTimeout: checkEvery,
	})
	if err != nil {
		p.must(err)
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 16*p.world.opts.Timeout)
	defer cancel()
	run := Operation{Kind: "run", Path: lockPath}
	by, _ := p.recordAsked(run)
	err = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		began := time.Now()
		from := began.Add(sickAfter)
		fails.CompareAndSwap(nil, &from)
		latest := fails.Load().Add(2 * checkEvery)
		if before := began.Add(2 * checkEvery); latest.Before(before) {
			latest = before
		}
		if _, ok := p.recordGranted(by, term.Claim); !ok {
			<-ctx.Done()
			return nil
		}
		proclaimed := by
		p.working.Go(func() { _ = p.proclaim(proclaimed, term) })
		<-ctx.Done()
		if late := time.Since(latest); late > 0 {
			p.world.problemf("%s: led %v longer than its health checks allow", p.name, late)
		}
		if p.record(by, history.Releasing) {
			by, _ = p.recordAsked(run)
		}
		return nil
	})
	if p.ctx.Err() != nil {
		return
	}
	p.recordFailed(by, context.Canceled) // Run did not begin that attempt
	if !errors.Is(err, election.ErrUnhealthy) {
		p.world.problemf("%s: Run returned %w, want %w", p.name, err, election.ErrUnhealthy)
	}
}
