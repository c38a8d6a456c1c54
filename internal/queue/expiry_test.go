// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The first of many callers that learn of an expiry ends the session, which takes time if there
// are many claims to notify. The test runs in real time, so that callers learn of it at the same
// time.
func TestCallersThatHearOfAnExpiryWhileClaimsAreBeingNotifiedGoOnInTheNextSession(t *testing.T) {
	const (
		claims   = 100
		contexts = 200 // of each claim
		callers  = 64
	)
	s := newEnsemble(t)
	s.create("/l", string(protocol.ParentData(0)))
	client := s.connect(s.options())
	for i := range claims {
		queue, err := New(client, fmt.Sprintf("/held/%d", i), nil)
		require.NoError(t, err)
		claim, err := queue.Claim(t.Context())
		require.NoError(t, err)
		for range contexts {
			_, cancel := claim.Context(t.Context())
			defer cancel()
		}
	}
	var stop atomic.Bool
	var calls [callers]atomic.Int64
	var running sync.WaitGroup
	for i := range callers {
		queue := newQueue(t, client, nil)
		running.Go(func() {
			for !stop.Load() {
				if _, err := queue.Contenders(t.Context()); err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				calls[i].Add(1)
			}
		})
	}
	every := func() {
		for i := range calls {
			for before := calls[i].Load(); calls[i].Load() == before && !t.Failed(); {
				runtime.Gosched()
			}
		}
	}
	every()
	s.Intercept(zktest.Rule{Session: client.SessionID(), When: isOp("getChildren2"), Fail: zktest.ErrSessionExpired})
	every()
	stop.Store(true)
	running.Wait()
}
