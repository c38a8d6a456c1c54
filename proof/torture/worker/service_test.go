// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
	"github.com/lockkeeper/lockkeeper/service/client"
)

func TestErrorOfTheServiceIsReportedByItsReason(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{client.LockAlreadyHeld, attempt.HeldByAnother},
		{errors.Join(client.LockAlreadyHeld, context.DeadlineExceeded), attempt.TimedOut},
		{errors.Join(client.ErrUncertain, context.DeadlineExceeded), attempt.Uncertain},
		{errors.Join(client.ErrLost, client.ErrDeadline), attempt.LostBefore},
		{errors.Join(client.ErrLost, client.LockRevoked), attempt.Revoked},
		{errors.New("boom"), "boom"},
	} {
		require.Equal(t, c.want, (&service{}).Reason(c.err))
	}
}

// granting is a lock service that grants everything, and records the operations on each path.
type granting struct {
	mu         sync.Mutex // guards operations
	operations map[string][]string
}

func (g *granting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	place, operation := path.Split(r.URL.Path)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.operations[place] = append(g.operations[place], operation)
	if r.Header.Get("Authorization") != "Bearer b" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Fprint(w, `{"lockToken": "l", "fencingToken": "17", "ttlMillis": 3000, "validMillis": 3000}`)
}

func TestEveryLockOfAServiceHasAHoldUntilItsRelease(t *testing.T) {
	g := &granting{operations: map[string][]string{}}
	server := httptest.NewServer(g)
	defer server.Close()
	c, err := (&service{}).Connect(t.Context(), &Spec{Name: "c2.1", Service: []string{server.URL}, Bearer: "b", Timeout: history.Instant(4 * time.Second)})
	require.NoError(t, err)
	defer c.Close()
	for _, how := range []string{"lock", "lock", "lock", "lock", "try", "campaign"} { // the fourth is taken with Do
		began := time.Now()
		hold, err := c.Acquire(t.Context(), how, "/torture/locks/a")
		require.NoError(t, err)
		require.Equal(t, history.ID(17), hold.Grant().Token)
		require.WithinRange(t, hold.(serviceHold).Deadline(), began.Add(2*time.Second), time.Now().Add(3*time.Second))
		select {
		case <-hold.Done():
			t.Fatal("the hold has ended")
		default:
		}
		require.NoError(t, hold.Release(t.Context()))
		<-hold.Done()
		require.Equal(t, history.GivenUp, hold.Cause())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	require.Len(t, g.operations["/v1/locks/locks/a/"], 10)
	require.Equal(t, []string{"campaign", "resign"}, g.operations["/v1/elections/locks/a/"])
}
