// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/service/client"
)

func TestWaiterThatGivesUpLeavesNothing(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	c := newClient(t, url, nil)
	hold, err := c.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	reason := errors.New("no interest")
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Lock(ctx, "team", "orders")
		ended <- err
	}()
	awaitQueue(t, url, 1)
	cancel(reason)
	err = <-ended
	require.ErrorIs(t, err, reason)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, client.ErrUncertain)
	require.NotErrorIs(t, err, client.ErrUnavailable)
	awaitQueue(t, url, 0)

	// The last eighth of a wait, of 1 s at most, is for the answer: a busy machine may take longer.
	for _, seconds := range []time.Duration{2, 4, 8, 8, 8} {
		bounded, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
		_, err = c.Lock(bounded, "team", "orders")
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if errors.Is(err, client.LockAlreadyHeld) {
			break
		}
	}
	require.ErrorIs(t, err, client.LockAlreadyHeld, "the service names the holder before the deadline")
	require.NoError(t, hold.Unlock(t.Context()))
}

func TestGrantWhoseCallerGaveUpIsReleased(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	ctx, cancel := context.WithCancel(t.Context())
	first := true
	p := newProxy(t, url, func(operation string) fault {
		if operation == "acquire" && first {
			first = false
			time.AfterFunc(50*time.Millisecond, cancel)
			return loseAnswer
		}
		if operation == "acquire" && ctx.Err() == nil {
			return hang
		}
		return none
	})
	_, err := newClient(t, p.url, nil).Lock(ctx, "team", "orders")
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, client.ErrUncertain)
	hold, err := newClient(t, url, nil).TryLock(t.Context(), "team", "orders")
	require.NoError(t, err, "the grant of the lost answer was released")
	require.NoError(t, hold.Unlock(t.Context()))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestWithdrawalAndItsReleaseTakeFiveSecondsTogether(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		releases := 0
		c := newClient(t, "http://locks", &client.Options{Transport: func(http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/release"):
					releases++
					<-r.Context().Done()
					return nil, r.Context().Err()
				case ctx.Err() == nil:
					cancel()
					return nil, io.ErrUnexpectedEOF
				}
				time.Sleep(3 * time.Second)
				grant := `{"lockToken": "t", "fencingToken": "7", "ttlMillis": 30000, "validMillis": 30000}`
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(grant))}, nil
			})
		}})
		began := time.Now()
		_, err := c.Lock(ctx, "team", "orders")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, client.ErrUncertain)
		require.Equal(t, 5*time.Second, time.Since(began))
		require.Positive(t, releases)
	})
}

func TestRefusalOfTheCallerAfterALostGrantIsUncertain(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	first := true
	p := newProxy(t, url, func(operation string) fault {
		if first {
			first = false
			return loseAnswer
		}
		return reject
	})
	_, err := newClient(t, p.url, nil).Lock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.Unauthenticated)
	require.ErrorIs(t, err, client.ErrUncertain)
	_, err = newClient(t, url, nil).TryLock(t.Context(), "team", "orders")
	require.ErrorIs(t, err, client.LockAlreadyHeld)
}

// Behind one URL can be replicas that know the caller and others that do not.
func TestGrantIsReleasedByTheReplicaThatStillKnowsTheCaller(t *testing.T) {
	t.Parallel()
	url, _ := replicas(t)()
	for _, refused := range []int{3, 4} { // the withdrawal, the release
		sent := 0
		p := newProxy(t, url, func(string) fault {
			sent++
			switch sent {
			case 1:
				return loseAnswer
			case 2, refused:
				return reject
			}
			return none
		})
		_, err := newClient(t, p.url, nil).Lock(t.Context(), "team", "orders")
		require.ErrorIs(t, err, client.Unauthenticated)
		require.NotErrorIs(t, err, client.ErrUncertain)
		hold, err := newClient(t, url, nil).TryLock(t.Context(), "team", "orders")
		require.NoError(t, err)
		require.NoError(t, hold.Unlock(t.Context()))
	}
}
