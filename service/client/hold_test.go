// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/client"
)

// A hold of short is lost soon. A hold of steady survives on a busy machine too: a renewal has 2.5 s, and may fail once.
var short, steady = client.Options{TTL: 4 * time.Second}, client.Options{TTL: 10 * time.Second}

func TestHoldIsRenewedWhileItIsHeld(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	p := newProxy(t, url, func(string) fault { return none })
	opts := steady
	hold, err := newClient(t, p.url, &opts).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	first := hold.ValidUntil()
	require.Eventually(t, func() bool { return time.Now().After(first.Add(steady.TTL / 3)) }, time.Minute, 10*time.Millisecond)
	require.NoError(t, hold.Err())
	require.Greater(t, hold.ValidUntil(), first)
	_, err = newClient(t, url, nil).TryLock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.LockAlreadyHeld)
	require.GreaterOrEqual(t, len(p.requests("renew")), 3)
	require.NoError(t, hold.Unlock(t.Context()))
	require.ErrorIs(t, hold.Err(), client.ErrReleased)
}

// A replica whose keys were rotated returns a token of the new key, and soon knows the old one no more.
func TestHoldPresentsTokenOfItsLastRenewal(t *testing.T) {
	t.Parallel()
	presented := make(chan string, 100)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := struct{ LockToken string }{}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		presented <- body.LockToken
		next := map[string]string{"": "one", "one": "two", "two": "two"}[body.LockToken]
		_, _ = fmt.Fprintf(w, `{"lockToken": %q, "fencingToken": "7", "ttlMillis": 10000, "validMillis": 10000}`, next)
	}))
	t.Cleanup(service.Close)
	opts := steady
	hold, err := newClient(t, service.URL, &opts).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	for _, want := range []string{"", "one", "two"} {
		require.Equal(t, want, <-presented)
	}
	require.NoError(t, hold.Unlock(t.Context()))
	for len(presented) > 0 {
		require.Equal(t, "two", <-presented)
	}
}

func TestHoldIsRenewedAtNextReplicaIfOneHangsOrRefusesTheCaller(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]fault{"hangs": hang, "refuses": reject} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := replicas(t)()
			p := newProxy(t, url, always(none))
			opts := steady
			hold, err := newClient(t, p.url+","+url, &opts).Lock(t.Context(), "team", "orders")
			require.NoError(t, err)
			p.set(always(f))
			first := hold.ValidUntil()
			require.Eventually(t, func() bool { return time.Now().After(first) }, time.Minute, 10*time.Millisecond)
			require.NoError(t, hold.Err())
			require.NotEmpty(t, p.requests("renew"))
			require.NoError(t, hold.Unlock(t.Context()))
		})
	}
}

func TestUnreachableHoldEndsBeforeAnotherClientIsGranted(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	for _, f := range []fault{hang, refuse} {
		p := newProxy(t, url, always(none))
		opts := short
		hold, err := newClient(t, p.url, &opts).Lock(t.Context(), "team", "orders")
		require.NoError(t, err)
		ended := make(chan time.Time, 1)
		go func() {
			<-hold.Done()
			ended <- time.Now()
		}()
		work, cancel := hold.Context(t.Context())
		p.set(always(f))
		next, err := newClient(t, url, nil).Lock(t.Context(), "team", "orders")
		granted := time.Now()
		require.NoError(t, err)
		require.Less(t, <-ended, granted)
		require.Less(t, hold.Deadline(), hold.ValidUntil())
		require.Less(t, hold.ValidUntil(), granted)
		require.ErrorIs(t, hold.Err(), client.ErrLost)
		require.ErrorIs(t, hold.Err(), client.ErrDeadline)
		require.Regexp(t, `^hold team/orders: hold lost: no renewal in time: (status 503|.*no answer within)`, hold.Err().Error())
		<-work.Done()
		require.ErrorIs(t, context.Cause(work), client.ErrDeadline)
		cancel()
		p.set(always(none))
		require.ErrorIs(t, hold.Unlock(t.Context()), client.ErrDeadline)
		require.NoError(t, next.Unlock(t.Context()), "the unlock of the lost hold did not touch it")
	}
}

func TestHolderOfRevokedHoldLearnsWhy(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	opts := steady
	hold, err := newClient(t, url, &opts).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	status, answer := post(t, "ops", url+"/v1/locks/team/orders/force-release",
		fmt.Sprintf(`{"fencingToken": "%d", "reason": "stuck"}`, hold.Token()))
	require.Equal(t, http.StatusOK, status, answer)
	<-hold.Done()
	require.ErrorIs(t, hold.Err(), client.ErrLost)
	require.ErrorIs(t, hold.Err(), client.LockRevoked)
	var p *client.Problem
	require.ErrorAs(t, hold.Err(), &p)
	require.Equal(t, []string{"ops", "stuck"}, []string{p.RevokedBy, p.Reason})
	require.ErrorIs(t, hold.Unlock(t.Context()), client.LockRevoked)
}

func TestUnlockOfHoldThatWasFreedByForceIsALoss(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	hold, err := newClient(t, url, nil).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	status, answer := post(t, "ops", url+"/v1/locks/team/orders/force-release",
		fmt.Sprintf(`{"fencingToken": "%d", "reason": "stuck", "mode": "now"}`, hold.Token()))
	require.Equal(t, http.StatusOK, status, answer)
	err = hold.Unlock(t.Context())
	require.ErrorIs(t, err, client.ErrLost)
	require.ErrorIs(t, err, client.LockExpired)
}

func TestDoRunsUnderLock(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	p := newProxy(t, url, always(none))
	opts := short
	c := newClient(t, p.url, &opts)
	failed := errors.New("failed")
	err := c.Do(t.Context(), "team", "orders", func(ctx context.Context, _ *client.Hold) error {
		_, err := c.TryLock(ctx, "team", "orders")
		require.ErrorIs(t, err, client.LockAlreadyHeld)
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.NotErrorIs(t, err, client.ErrLost)

	err = c.Do(t.Context(), "team", "orders", func(ctx context.Context, _ *client.Hold) error {
		p.set(always(refuse))
		<-ctx.Done()
		p.set(always(none))
		require.ErrorIs(t, context.Cause(ctx), client.ErrDeadline)
		return nil
	})
	require.ErrorIs(t, err, client.ErrLost, "a loss is an error, whatever the function returns")
}

func TestUnlockThatIsNotConfirmedIsUncertain(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	p := newProxy(t, url, always(none))
	for _, f := range []fault{refuse, reject} {
		hold, err := newClient(t, p.url, nil).Lock(t.Context(), "team", "orders"+fmt.Sprint(f))
		require.NoError(t, err)
		p.set(always(f))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err = hold.Unlock(ctx)
		require.ErrorIs(t, err, client.ErrUncertain)
		require.NotErrorIs(t, err, client.ErrLost)
		p.set(always(none))
	}
}

func TestCloseUnlocksHolds(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	c, other := newClient(t, url, nil), newClient(t, url, nil)
	hold, err := c.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.ErrorIs(t, hold.Err(), client.ErrReleased)
	again, err := other.TryLock(t.Context(), "team", "orders")
	require.NoError(t, err)
	require.NoError(t, again.Unlock(t.Context()))
	_, err = c.Lock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.ErrClosed)
	again, err = other.TryLock(t.Context(), "team", "orders")
	require.NoError(t, err, "a closed client leaves nothing")
	require.NoError(t, again.Unlock(t.Context()))
}

func TestLeaderLeadsUntilItResigns(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	c := newClient(t, url, nil)
	term, err := c.Campaign(t.Context(), "team", "orders", "10.0.0.1:80")
	require.NoError(t, err)
	_, err = c.TryLock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.LockAlreadyHeld)
	require.NoError(t, term.Unlock(t.Context()))
	next, err := c.Campaign(t.Context(), "team", "orders", "")
	require.NoError(t, err)
	require.Greater(t, next.Token(), term.Token())
	require.NoError(t, next.Unlock(t.Context()))
}
