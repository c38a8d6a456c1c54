// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/client"
)

func TestRequestsWhoseAnswersAreLostAreRepeated(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	for _, f := range []fault{loseAnswer, refuse} {
		failed := map[string]int{}
		p := newProxy(t, url, func(operation string) fault {
			failed[operation]++
			if failed[operation] <= 2 {
				return f
			}
			return none
		})
		c := newClient(t, p.url, nil)
		hold, err := c.Lock(t.Context(), "team", "orders")
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
		acquires := p.requests("acquire")
		require.Len(t, acquires, 3)
		require.Equal(t, requestID(t, acquires[0]), requestID(t, acquires[2]), "one acquisition has one requestId")
		require.Len(t, p.requests("release"), 3)
		next, err := c.TryLock(t.Context(), "team", "orders")
		require.NoError(t, err, "the lock is free")
		require.Greater(t, next.Token(), hold.Token())
		require.NoError(t, next.Unlock(t.Context()))
	}
}

func requestID(t *testing.T, body string) string {
	t.Helper()
	var request struct{ RequestID string }
	require.NoError(t, json.Unmarshal([]byte(body), &request))
	require.NotEmpty(t, request.RequestID)
	return request.RequestID
}

func TestGrantWhoseAnswerIsLateIsAskedForAgain(t *testing.T) {
	t.Parallel()
	var asked, released atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/acquire") && asked.Add(1) == 1 {
			time.Sleep(short.TTL - short.TTL/10)
		}
		if strings.HasSuffix(r.URL.Path, "/release") {
			released.Add(1)
		}
		_, _ = fmt.Fprint(w, `{"lockToken": "t", "fencingToken": "7", "ttlMillis": 4000, "validMillis": 4000}`)
	}))
	defer server.Close()
	opts := short
	hold, err := newClient(t, server.URL, &opts).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	require.EqualValues(t, 2, asked.Load())
	require.EqualValues(t, 7, hold.Token())
	require.NoError(t, hold.Unlock(t.Context()))
	require.EqualValues(t, 1, released.Load())
}

func TestLeaseIsCountedFromSendingOfItsRequest(t *testing.T) {
	t.Parallel()
	const delay = 300 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(delay) // the answer is on its way
		_, _ = fmt.Fprint(w, `{"lockToken": "t", "fencingToken": "7", "ttlMillis": 30000, "validMillis": 30000}`)
	}))
	defer server.Close()
	began := time.Now()
	hold, err := newClient(t, server.URL, nil).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	answered := time.Now()
	require.GreaterOrEqual(t, hold.ValidUntil().Sub(began), 30*time.Second)
	require.LessOrEqual(t, hold.ValidUntil().Sub(answered), 30*time.Second-delay)
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestTryLockReturnsHolder(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	hold, err := newClient(t, url, &client.Options{Owner: "first"}).TryLock(t.Context(), "team", "a/../b c")
	require.NoError(t, err)
	_, err = newClient(t, url, nil).TryLock(t.Context(), "team", "a/../b c")
	require.ErrorIs(t, err, client.LockAlreadyHeld)
	var p *client.Problem
	require.ErrorAs(t, err, &p)
	require.Equal(t, "first", p.CurrentOwner)
	require.EqualError(t, err, `lock team/a/../b c: LOCK_ALREADY_HELD: Another holder has the lock: held by "first"`)
	require.NoError(t, hold.Unlock(t.Context()))
	dots, err := newClient(t, url, nil).TryLock(t.Context(), "team", "..")
	require.NoError(t, err)
	require.NoError(t, dots.Unlock(t.Context()))
}

func TestWaiterKeepsItsPositionWhenItsReplicaStops(t *testing.T) {
	t.Parallel()
	start := replicas(t)
	one, stop := start()
	two, _ := start()
	hold, err := newClient(t, two, nil).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	seen := newProxy(t, two, always(none))
	granted := make(chan *client.Hold, 2)
	waiter := newClient(t, one+","+seen.url, &client.Options{Owner: "waiter"})
	go func() {
		h, _ := waiter.Lock(t.Context(), "team", "orders")
		granted <- h
	}()
	awaitQueue(t, two, 1)
	stop() // the replica answers 202
	require.Eventually(t, func() bool { return len(seen.requests("acquire")) == 1 }, time.Minute, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = newClient(t, two, nil).Lock(ctx, "team", "orders")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, hold.Unlock(t.Context()))
	h := <-granted
	require.NotNil(t, h)
	require.Greater(t, h.Token(), hold.Token())
	require.NoError(t, h.Unlock(t.Context()))
}

func TestReplicaThatRefusesTheCallerIsLeftForOneThatDoesNot(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	first := true
	knows, refuses := newProxy(t, url, func(string) fault {
		if first {
			first = false
			return loseAnswer
		}
		return none
	}), newProxy(t, url, always(reject))
	urls := knows.url + "," + refuses.url
	_, err := newClient(t, urls, nil).Lock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.Unauthenticated)
	require.NotErrorIs(t, err, client.ErrUncertain)

	hold, err := newClient(t, urls, nil).TryLock(t.Context(), "team", "orders")
	require.NoError(t, err)
	knows.set(always(reject))
	refuses.set(always(none))
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestClosedClientSendsNoRequestAndEndsItsWaits(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	hold, err := newClient(t, url, nil).Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	p := newProxy(t, url, always(none))
	c := newClient(t, p.url, nil)
	waits := make(chan error, 1)
	go func() {
		_, err := c.Lock(context.Background(), "team", "orders")
		waits <- err
	}()
	awaitQueue(t, url, 1)
	require.NoError(t, c.Close())
	err = <-waits
	require.ErrorIs(t, err, client.ErrClosed)
	require.NotErrorIs(t, err, client.ErrUncertain)
	awaitQueue(t, url, 0)
	sent := len(p.requests("acquire"))
	_, err = c.Lock(context.Background(), "team", "orders")
	require.ErrorIs(t, err, client.ErrClosed)
	_, err = c.TryLock(context.Background(), "team", "orders")
	require.ErrorIs(t, err, client.ErrClosed)
	require.Len(t, p.requests("acquire"), sent)
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestRequestWithoutATokenWasNotSent(t *testing.T) {
	t.Parallel()
	missing := errors.New("no token")
	c := newClient(t, "http://127.0.0.1:1", &client.Options{Bearer: func() (string, error) { return "", missing }})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := c.Lock(ctx, "team", "orders")
	require.ErrorIs(t, err, missing)
	require.NotErrorIs(t, err, client.ErrUncertain)
}

func TestErrorsNameNoPasswordOfAURL(t *testing.T) {
	t.Parallel()
	_, err := client.New("http://u:secret@h?x", nil)
	require.ErrorContains(t, err, "@h?x")
	require.NotContains(t, err.Error(), "secret")
	_, err = client.New("http://u:secret%zz@h", nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = newClient(t, "http://u:secret@127.0.0.1:1", nil).Ready(ctx)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

type wrapped struct{ http.RoundTripper }

func TestClientNeedsNoTransportOfTheStandardLibrary(t *testing.T) {
	before := http.DefaultTransport
	http.DefaultTransport = wrapped{before}
	t.Cleanup(func() { http.DefaultTransport = before })
	_, err := client.New("http://127.0.0.1:1", nil)
	require.NoError(t, err)
}

func TestServiceThatIsNotReachedIsUnavailable(t *testing.T) {
	t.Parallel()
	c := newClient(t, "http://127.0.0.1:1", nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := c.Lock(ctx, "team", "orders")
	require.ErrorIs(t, err, client.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, client.ErrUncertain, "no request was sent")
	require.ErrorIs(t, c.Ready(ctx), client.ErrUnavailable)
}

// The error of a dial that was cut short is the error of the context, and does not show what it interrupted.
func TestLockWhoseDialNeverEndsLeavesNothing(t *testing.T) {
	t.Parallel()
	dialled := make(chan struct{}, 100)
	c := newClient(t, "http://127.0.0.1:1", &client.Options{Transport: func(http.RoundTripper) http.RoundTripper {
		return &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dialled <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-dialled
		cancel()
	}()
	_, err := c.Lock(ctx, "team", "orders")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, client.ErrUncertain, "no request was sent")
	require.Empty(t, dialled, "there is nothing to withdraw")
}

func TestRefusalIsFoundByItsCode(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	require.NoError(t, newClient(t, url, nil).Ready(t.Context()))
	_, err := newClient(t, url, &client.Options{Bearer: bearer("unknown")}).Lock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.Unauthenticated)
	_, err = newClient(t, url, nil).Lock(t.Context(), "sales", "orders")
	require.ErrorIs(t, err, client.Forbidden)
	_, err = newClient(t, url, nil).Lock(t.Context(), "team", "")
	var p *client.Problem
	require.ErrorAs(t, err, &p)
}

func TestServiceIsTrustedByItsCertificate(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{}`)
	}))
	server.Config.ErrorLog = discard
	server.StartTLS()
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.Error(t, newClient(t, server.URL, nil).Ready(ctx))
	trusting := &client.Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig}
	require.NoError(t, newClient(t, server.URL, trusting).Ready(t.Context()))
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, urls := range []string{"", "locks.example.com", "ftp://locks", "http://a,", "http://a?b"} {
		_, err := client.New(urls, nil)
		require.ErrorContains(t, err, "is not the URL of a lock service", urls)
	}
	_, err := client.New("http://a", &client.Options{TTL: time.Millisecond})
	require.ErrorContains(t, err, "TTL 1ms")
	_, err = client.New("http://a", &client.Options{Owner: strings.Repeat("x", 257)})
	require.ErrorContains(t, err, "owner")
}
