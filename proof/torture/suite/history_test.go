// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A history records the claims of one path, from the view of their holders, because holders act on that view.
type history struct {
	env     *env
	running sync.WaitGroup

	mu    sync.Mutex // guards holds, and their until
	holds []*interval
}

// An interval is the time from the grant of one claim until its holder was notified of the end.
type interval struct {
	who   string
	token fencing.Token
	from  time.Time
	until time.Time // zero while it has not ended
}

func (s *env) history() *history {
	h := &history{env: s}
	s.T.Cleanup(h.running.Wait)
	return h
}

// granted records a claim, and its end when it comes. from is the time immediately after the call that returned the claim.
func (h *history) granted(who string, claim *recipes.Claim, from time.Time) {
	hold := &interval{who: who, token: claim.Token(), from: from}
	h.mu.Lock()
	h.holds = append(h.holds, hold)
	h.mu.Unlock()
	h.running.Go(func() {
		select {
		case <-claim.Done():
			h.end(hold)
		case <-h.env.Ctx.Done():
		}
	})
}

// releasing records that the holder of a claim is about to release it. From here on it no longer acts as the holder, even if
// this process observes the end of Done later.
func (h *history) releasing(claim *recipes.Claim) {
	h.mu.Lock()
	i := slices.IndexFunc(h.holds, func(hold *interval) bool { return hold.token == claim.Token() })
	hold := h.holds[i]
	h.mu.Unlock()
	h.end(hold)
}

func (h *history) end(hold *interval) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if hold.until.IsZero() {
		hold.until = now
	}
}

// inOrder returns the intervals in the order of their tokens.
func (h *history) inOrder() []interval {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []interval
	for _, hold := range h.holds {
		all = append(all, *hold)
	}
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.token, b.token) })
	return all
}

// requireNoOverlap fails the test unless each holder was notified before the next one held, or could not be because this process
// was not scheduled, and the tokens rose in the order of the grants.
func (h *history) requireNoOverlap() {
	h.env.T.Helper()
	all := h.inOrder()
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		require.Less(h.env.T, before.token, after.token, "two grants with one token")
		if before.until.IsZero() || !reacted(before.until).Before(after.from) {
			require.Fail(h.env.T, "two holds overlap", "%s\n%s", before.relativeTo(all[0].from), after.relativeTo(all[0].from))
		}
	}
}

// relativeTo describes the interval in times since start.
func (hold interval) relativeTo(start time.Time) string {
	until := "now"
	if !hold.until.IsZero() {
		until = hold.until.Sub(start).String()
	}
	return fmt.Sprintf("%s held from %v to %s, token %d", hold.who, hold.from.Sub(start), until, hold.token)
}
