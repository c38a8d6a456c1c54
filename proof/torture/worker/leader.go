// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func init() {
	kinds["campaign"] = kind{acquire: (*lockkeeperClient).campaign}
	tasks = append(tasks, task{"observer", func(s *Spec) bool { return len(s.Elections) > 0 }, observeLeaders})
}

// candidate is the prefix of the IDs of candidates. Holders and waiters of locks on the same path have others, and no
// term is handed over to them.
const candidate = "candidate "

// campaign campaigns at path.
func (c *lockkeeperClient) campaign(ctx context.Context, path string) (Hold, error) {
	e, err := election.New(c.client, path, &election.Options{
		Owner: candidate + c.name, Priority: c.priority, PriorityWait: 250 * time.Millisecond,
		LockDelay: c.lockDelay(path), Fence: c.fenceOf(path),
	})
	if err != nil {
		return nil, err
	}
	term, err := e.Campaign(ctx)
	if err != nil {
		return nil, err
	}
	return termHold{lockkeeperHold{term.Claim, c.client, term.Resign}, e, term}, nil
}

// termHold is the term of a leader, which can publish values and be handed over.
type termHold struct {
	lockkeeperHold

	election *election.Election
	term     *election.Term
}

// publish publishes a value, which is a number, or that the leader drains.
func (h termHold) publish(ctx context.Context, number int) error {
	if number == 0 {
		return h.term.Drain(ctx)
	}
	return h.term.Proclaim(ctx, strconv.Itoa(number))
}

// handOver hands the term over to the last candidate but skip, if there is one. The one that it names may have left.
func (h termHold) handOver(ctx context.Context, skip int) error {
	all, err := h.election.Candidates(ctx)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(l election.Leader) bool {
		return l.Token <= h.term.Token() || !strings.HasPrefix(l.Owner, candidate)
	})
	if len(all) == 0 {
		return nil
	}
	_, err = h.term.HandOver(ctx, all[max(0, len(all)-1-skip)].Owner)
	if errors.Is(err, election.ErrNotCandidate) {
		return nil
	}
	return err
}

// mayPublish is the greatest number of values of one term.
const mayPublish = 16

// lead has a leader publish several values while it works, then that it drains, and now and then hand its term over. It does
// nothing for other holds. What it sends last can be under way when the term ends. The function waits for its goroutine.
func (a *workloadClient) lead(p part, drawn operation) (wait func()) {
	term, leads := p.hold.(termHold)
	if !leads || !slices.Contains(a.spec.Elections, p.by.Path) {
		return func() {}
	}
	values, handsOver, skip := 1+a.rand.IntN(3), a.rand.IntN(4) == 0, a.rand.IntN(3)
	pace := drawn.hold / time.Duration(values+1)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for i := range values + 1 {
			number := p.by.Attempt*mayPublish + i + 1
			if i == values {
				number = 0
			}
			a.mustPublish("publish a value", p, term.publish(a.ctx, number))
			if i == 0 && handsOver {
				a.mustPublish("hand over", p, term.handOver(a.ctx, skip))
			}
			select {
			case <-time.After(pace):
			case <-term.Done(): // the next value is sent although the term has ended
			}
		}
	})
	return publishing.Wait
}

// mustPublish reports a problem unless a leader may get the error.
func (a *workloadClient) mustPublish(what string, p part, err error) {
	if err != nil && !attempt.MayFailRelease(a.library.Reason(err)) && a.ctx.Err() == nil {
		a.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("%s of %s: %v", what, p.by.Path, err)})
	}
}

// observeLeaders observes the elections, and reports each leader.
func observeLeaders(ctx context.Context, client *recipes.Client, spec *Spec, report func(history.Event)) error {
	errs := make([]error, len(spec.Elections))
	var observing sync.WaitGroup
	for i, path := range spec.Elections {
		observing.Go(func() { errs[i] = observe(ctx, client, path, report) })
	}
	observing.Wait()
	return errors.Join(errs...)
}

// observe reports each leader of the election at path.
func observe(ctx context.Context, client *recipes.Client, path string, report func(history.Event)) error {
	e, err := election.New(client, path, nil)
	if err != nil {
		return err
	}
	for leader, err := range e.Observe(ctx) {
		if err != nil {
			return err
		}
		shown := history.Event{Kind: history.Observed, Path: path, Token: history.ID(leader.Token)}
		shown.Write, shown.Text = history.Shown(leader.Value, leader.Draining)
		report(shown)
	}
	return nil
}
