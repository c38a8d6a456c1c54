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

// A history is who had the claims of one path, and when, as the holders saw it
// themselves: that is what they act upon.
type history struct {
	env     *env
	running sync.WaitGroup

	mu      sync.Mutex // guards tenures, and their until
	tenures []*tenure
}

// A tenure is one claim, from its grant until its holder knew that it had ended.
type tenure struct {
	who   string
	token fencing.Token
	from  time.Time
	until time.Time // zero while it has not ended
}

func (s *env) history() *history {
	h := &history{env: s}
	s.t.Cleanup(h.running.Wait)
	return h
}

// granted notes a claim, and when it ends. from is the instant right after the
// call that returned it.
func (h *history) granted(who string, claim *recipes.Claim, from time.Time) {
	tn := &tenure{who: who, token: claim.Token(), from: from}
	h.mu.Lock()
	h.tenures = append(h.tenures, tn)
	h.mu.Unlock()
	h.running.Go(func() {
		select {
		case <-claim.Done():
			h.end(tn)
		case <-h.env.ctx.Done():
		}
	})
}

// releasing notes that the holder of a claim is about to give it up: it acts no
// more from here, whenever this process gets to see that Done is closed.
func (h *history) releasing(claim *recipes.Claim) {
	h.mu.Lock()
	i := slices.IndexFunc(h.tenures, func(tn *tenure) bool { return tn.token == claim.Token() })
	tn := h.tenures[i]
	h.mu.Unlock()
	h.end(tn)
}

func (h *history) end(tn *tenure) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if tn.until.IsZero() {
		tn.until = now
	}
}

// inOrder returns the tenures in the order of their tokens.
func (h *history) inOrder() []tenure {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []tenure
	for _, tn := range h.tenures {
		all = append(all, *tn)
	}
	slices.SortFunc(all, func(a, b tenure) int { return cmp.Compare(a.token, b.token) })
	return all
}

// requireNoOverlap fails the test unless each was notified before the next one held, and the
// tokens rose in the order of the grants.
func (h *history) requireNoOverlap() {
	h.env.t.Helper()
	all := h.inOrder()
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		require.Less(h.env.t, before.token, after.token, "two grants with one token")
		if before.until.IsZero() || !before.until.Before(after.from) {
			require.Fail(h.env.t, "two holds overlap", "%s\n%s", before.relativeTo(all[0].from), after.relativeTo(all[0].from))
		}
	}
}

func (tn tenure) relativeTo(start time.Time) string {
	until := "now"
	if !tn.until.IsZero() {
		until = tn.until.Sub(start).String()
	}
	return fmt.Sprintf("%s held from %v to %s, token %d", tn.who, tn.from.Sub(start), until, tn.token)
}
