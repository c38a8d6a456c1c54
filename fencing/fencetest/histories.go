// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// The histories of one ensemble before and after a wipe.
const earlier, later = "history-before", "history-after"

var historyProperties = []property{
	{
		name:  "a token of another history is refused with both histories whatever its number",
		needs: needs{histories: true}, check: otherHistoryIsRefused,
	},
	{name: "a fence without a history adopts the history of the next admitted token", needs: needs{histories: true}, check: historyIsAdopted},
	{
		name:  "a guard without a history neither checks nor changes the stored one",
		needs: needs{histories: true}, check: unnamedHistoryIsNotChecked,
	},
	{name: "histories of two resources are independent", needs: needs{histories: true}, check: historiesAreIndependent},
	{
		name:  "a reset opens one resource to the history of the guard that resets",
		needs: needs{histories: true, resets: true}, check: resetChangesTheHistory,
	},
	{name: "of two histories racing for one resource one wins", needs: needs{histories: true}, check: oneHistoryWinsTheRace},
	{
		name:  "a history survives a restart",
		needs: needs{histories: true, restarts: true}, check: historySurvivesRestart,
	},
}

// of returns a probe of the same subject through a guard of that history.
func (p *probe) of(history string) *probe {
	p.t.Helper()
	g := p.subject.OpenHistory(p.t, history)
	if g == nil {
		p.t.Fatalf("OpenHistory(%q) returned nil", history)
	}
	return &probe{Guarded: g, t: p.t, subject: p.subject}
}

// refusesHistory expects that token is refused as one of another history, and that the value does not change.
func (p *probe) refusesHistory(resource string, token fencing.Token, given, stored string) {
	p.t.Helper()
	before := p.value(resource)
	p.otherHistory(p.Write(p.t.Context(), resource, token, "of another history"), token, given, stored)
	p.holds(resource, before)
}

func (p *probe) otherHistory(err error, token fencing.Token, given, stored string) {
	p.t.Helper()
	var other *fencing.HistoryError
	if !errors.As(err, &other) {
		p.t.Fatalf("write with token %d of history %q after one of history %q: error %v, want a *fencing.HistoryError",
			token, given, stored, err)
	}
	if want := (fencing.HistoryError{Token: token, Given: given, Stored: stored}); *other != want {
		p.t.Fatalf("write with token %d of history %q after one of history %q: %+v, want %+v", token, given, stored, *other, want)
	}
	if errors.Is(err, fencing.ErrStale) || errors.Is(err, fencing.ErrInvalid) {
		p.t.Fatalf("write with token %d of history %q after one of history %q: %v is also stale or invalid",
			token, given, stored, err)
	}
}

func otherHistoryIsRefused(p *probe) {
	before, after := p.of(earlier), p.of(later)
	before.admits("ledger", 5, "five")
	for _, token := range []fencing.Token{4, 5, 6, 1 << 40} {
		after.refusesHistory("ledger", token, later, earlier)
	}
	before.admits("ledger", 5, "five again") // no refused token was admitted
	before.refuses("ledger", 4, 5)
	before.admits("ledger", 6, "six")
	after.refusesHistory("ledger", 6, later, earlier)
}

func historyIsAdopted(p *probe) {
	before, after := p.of(earlier), p.of(later)
	p.admits("equal", 7, "seven")
	before.admits("equal", 7, "seven")
	after.refusesHistory("equal", 9, later, earlier)

	p.admits("newer", 7, "seven")
	before.admits("newer", 8, "seven")
	after.refusesHistory("newer", 9, later, earlier)

	p.admits("refused", 7, "seven")
	before.refuses("refused", 6, 7)
	after.admits("refused", 7, "adopted from the admitted token")
	before.refusesHistory("refused", 9, earlier, later)
}

func unnamedHistoryIsNotChecked(p *probe) {
	before, after := p.of(earlier), p.of(later)
	before.admits("ledger", 7, "seven")
	p.admits("ledger", 7, "of any")
	p.admits("ledger", 8, "of any, newer")
	p.refuses("ledger", 7, 8)
	before.refuses("ledger", 7, 8)
	after.refusesHistory("ledger", 9, later, earlier)
	before.admits("ledger", 8, "eight")
}

func historiesAreIndependent(p *probe) {
	before, after := p.of(earlier), p.of(later)
	before.admits("ledger", 7, "before")
	after.admits("other", 7, "after")
	after.refusesHistory("ledger", 7, later, earlier)
	before.refusesHistory("other", 7, earlier, later)
}

func resetChangesTheHistory(p *probe) {
	before, after := p.of(earlier), p.of(later)
	before.admits("ledger", 1<<40, "before")
	before.admits("other", 1<<40, "other")
	after.refusesHistory("ledger", 3, later, earlier)
	after.resets("ledger")
	after.admits("ledger", 3, "after")
	after.refuses("ledger", 2, 3)
	before.refusesHistory("ledger", 1<<41, earlier, later)
	after.refusesHistory("other", 3, later, earlier)

	p.resets("ledger") // by a guard without a history, which clears the stored one
	before.admits("ledger", 2, "before, adopted")
	after.refusesHistory("ledger", 3, later, earlier)
}

// A guard that checks the history in one step and stores it in another admits both.
func oneHistoryWinsTheRace(p *probe) {
	const rounds = 30
	before, after := p.of(earlier), p.of(later)
	for seed := range uint64(rounds) {
		var (
			resource = fmt.Sprintf("history race %d", seed)
			random   = rand.New(rand.NewPCG(seed, 2))
			start    = make(chan struct{})
			errs     [2]error
			group    sync.WaitGroup
		)
		for i, g := range []Guarded{before, after} {
			lead := random.IntN(20)
			group.Go(func() {
				<-start
				for range lead {
					runtime.Gosched()
				}
				errs[i] = g.Write(p.t.Context(), resource, 7, []string{earlier, later}[i])
			})
		}
		close(start)
		group.Wait()
		switch {
		case errs[0] == nil && errs[1] == nil:
			p.t.Fatalf("round of seed %d: tokens of two histories were admitted to %q", seed, resource)
		case errs[0] == nil:
			p.otherHistory(errs[1], 7, later, earlier)
			p.holds(resource, earlier)
		case errs[1] == nil:
			p.otherHistory(errs[0], 7, earlier, later)
			p.holds(resource, later)
		default:
			p.t.Fatalf("round of seed %d: %v; %v; want exactly one admitted", seed, errs[0], errs[1])
		}
	}
}

func historySurvivesRestart(p *probe) {
	p.of(earlier).admits("ledger", 7, "seven")
	p.of(later).refusesHistory("ledger", 9, later, earlier)
	p.restart()
	p.admits("ledger", 8, "eight")
	p.of(later).refusesHistory("ledger", 9, later, earlier)
	p.of(earlier).refuses("ledger", 7, 8)
	p.of(earlier).admits("ledger", 8, "eight again")
}
