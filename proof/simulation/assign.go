// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// "own" is a member for the time that the operation waits, whose work takes to return as long as it holds.
func init() {
	operations["own"] = operation{all: func(p *Process, o Operation) error {
		p.ownUntil(assignPath+o.Path, o.Wait, o.Hold, nil)
		return nil
	}}
}

// ownPartitions is a member for d, whose work takes stopping to return.
func (p *Process) ownPartitions(d, stopping time.Duration) { p.ownUntil(assignPath, d, stopping, nil) }

// mustOwnAll is a member until it owns all partitions, which it must within d when the other members have left.
func (p *Process) mustOwnAll(d time.Duration) {
	owned := false
	if p.ownUntil(assignPath, d, 0, func(now []*assign.Ownership) bool { owned = len(now) == len(assigned); return owned }); !owned && !p.crashed() {
		p.world.problemf("%s: not all partitions were owned within %v", p.name, d)
	}
}

// ownUntil is a member of the assignment at a path for d, or until done returns true for what it owns.
func (p *Process) ownUntil(at string, d, stopping time.Duration, done func([]*assign.Ownership) bool) {
	a, err := assign.New(p.client, at, &assign.Options{
		ID: p.name, Partitions: assigned, RebalanceWait: p.world.fraction(16), RejoinWait: p.world.fraction(4), RetryBackoff: p.world.fraction(16),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		p.must(err)
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, d)
	defer cancel()
	if done != nil {
		p.working.Go(func() {
			for ctx.Err() == nil && !done(a.Owned()) {
				time.Sleep(p.world.fraction(64))
			}
			cancel()
		})
	}
	err = a.Run(ctx, func(ctx context.Context, o *assign.Ownership) error {
		p.workFor(ctx, o, stopping)
		return nil
	})
	if !errors.Is(err, recipes.ErrUncertain) && !p.crashed() {
		p.must(err)
	}
}

// workFor is the work of a partition. It writes until its context is done, and then takes stopping to return.
func (p *Process) workFor(ctx context.Context, o *assign.Ownership, stopping time.Duration) {
	by, ok := p.recordAsked(Operation{Kind: "own", Path: path.Dir(o.Path())})
	if ok {
		_, ok = p.recordGranted(by, o.Claim)
	}
	working := history.Event{Contender: p.name, Path: by.Path, Token: history.ID(o.Token())}
	if !ok || !p.record(working, history.Working) {
		<-ctx.Done() // a crashed process does not end its work
		return
	}
	p.work(ctx, by, o.Claim, withoutEpoch(o.Claim), 100*p.world.opts.Timeout)
	<-ctx.Done()
	time.Sleep(stopping)
	if err := o.Err(); err != nil {
		working.Cause = causeOf(err)
	}
	p.record(working, history.Worked)
	p.record(by, history.Releasing)
}

// scribble has an operator write records of members at random for d: a partition can be assigned to any number of members.
func (w *World) scribble(d time.Duration, members ...string) {
	r := rand.New(rand.NewPCG(uint64(len(w.recorder.Events())), 0)) //nolint:gosec // it must be repeatable, not secret
	for until := time.Now().Add(d); time.Now().Before(until); time.Sleep(w.fraction(32)) {
		var names []string
		for _, name := range assigned {
			if r.IntN(2) == 0 {
				names = append(names, `"`+name+`"`)
			}
		}
		data := fmt.Appendf(nil, `{"format":1,"token":"1","partitions":[%s],"weight":1}`, strings.Join(names, ","))
		node := assignPath + "/assigned/" + members[r.IntN(len(members))]
		if _, _, err := w.ensemble.Get(node); err == nil {
			w.must(w.ensemble.Set(node, data))
		}
	}
}
