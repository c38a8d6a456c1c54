// SPDX-License-Identifier: Apache-2.0

package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// A request is one that a scripted service gets.
type request struct {
	host, operation string
	wait            time.Duration
}

// A script is a service in fake time. Its answer is a status and a body. Status 0 never comes.
type script struct {
	answer func(r request) (status int, body string)

	mu   sync.Mutex
	seen []request
}

const (
	granted = `{"lockToken": "t", "fencingToken": "7", "ttlMillis": 30000, "validMillis": 30000}`
	held    = `{"status": 409, "code": "LOCK_ALREADY_HELD", "title": "held", "currentOwner": "other"}`
)

// silentFirst answers as the replica second does, and as first never does.
func silentFirst(r request) (int, string) {
	if r.host == "first" {
		return 0, ""
	}
	return http.StatusOK, granted
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body := struct{ WaitMillis int64 }{}
	if r.Body != nil {
		_ = json.NewDecoder(r.Body).Decode(&body) // a GET has none
	}
	req := request{
		r.URL.Host, r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:], time.Duration(body.WaitMillis) * time.Millisecond,
	}
	s.mu.Lock()
	s.seen = append(s.seen, req)
	s.mu.Unlock()
	status, answer := s.answer(req)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

func (s *script) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.seen...)
}

func (s *script) hosts() (hosts []string) {
	for _, r := range s.requests() {
		hosts = append(hosts, r.host)
	}
	return hosts
}

// scripted returns a client of replicas that answer by a script.
func scripted(t *testing.T, urls string, answer func(r request) (int, string)) (*client.Client, *script) {
	t.Helper()
	s := &script{answer: answer}
	return newClient(t, urls, &client.Options{Transport: func(http.RoundTripper) http.RoundTripper { return s }}), s
}

func TestCallWithDeadlineReachesNextReplicaIfOneNeverAnswers(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *client.Client) error{
		"Lock": func(ctx context.Context, c *client.Client) error {
			_, err := c.Lock(ctx, "team", "orders")
			return err
		},
		"TryLock": func(ctx context.Context, c *client.Client) error {
			_, err := c.TryLock(ctx, "team", "orders")
			return err
		},
		"Campaign": func(ctx context.Context, c *client.Client) error {
			_, err := c.Campaign(ctx, "team", "orders", "here")
			return err
		},
		"Status": func(ctx context.Context, c *client.Client) error {
			_, err := c.Status(ctx, "team", "orders")
			return err
		},
		"ForceRelease": func(ctx context.Context, c *client.Client) error {
			return c.ForceRelease(ctx, "team", "orders", client.Force{Token: 7, Reason: "stuck"})
		},
		"Ready": func(ctx context.Context, c *client.Client) error { return c.Ready(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, seconds := range []time.Duration{3, 5, 10, 25, 40} {
				faketime.Test(t, func(t *testing.T) {
					c, s := scripted(t, "http://first,http://second", silentFirst)
					ctx, cancel := context.WithTimeout(t.Context(), seconds*time.Second)
					defer cancel()
					began := time.Now()
					require.NoError(t, call(ctx, c))
					require.LessOrEqual(t, time.Since(began), seconds*time.Second/2)
					require.Equal(t, []string{"first", "second"}, s.hosts())
				})
			}
		})
	}
}

func TestLockWithDeadlineReachesThirdReplicaIfTwoNeverAnswer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c, s := scripted(t, "http://first,http://first,http://second", silentFirst)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		hold, err := c.Lock(ctx, "team", "orders")
		require.NoError(t, err)
		require.Equal(t, []string{"first", "first", "second"}, s.hosts())
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

// To end a poll early costs the waiter its position.
func TestWaitOnHealthyReplicaIsOnePollToItsEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c, s := scripted(t, "http://first,http://second", func(r request) (int, string) {
			time.Sleep(r.wait)
			return http.StatusConflict, held
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := c.Lock(ctx, "team", "orders")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, client.LockAlreadyHeld)
		require.Equal(t, []request{{"first", "acquire", 0}, {"first", "acquire", 9 * time.Second}}, s.requests())
	})
}

func TestWaiterAsksNextReplicaBeforeItsDeadlineIfItsReplicaFallsSilent(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c, s := scripted(t, "http://first,http://second", func(r request) (int, string) {
			if r.host == "first" && r.wait == 0 {
				return http.StatusConflict, held
			}
			return silentFirst(r)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		hold, err := c.Lock(ctx, "team", "orders")
		require.NoError(t, err)
		last := s.requests()[2]
		require.Equal(t, "second", last.host)
		require.Positive(t, last.wait, "a request that does not wait would withdraw the waiter")
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

func TestRequestAfterOneThatWaitedWaitsToo(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c, s := scripted(t, "http://first,http://second", silentFirst)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		hold, err := c.Lock(ctx, "team", "orders")
		require.NoError(t, err)
		require.Equal(t, []request{{"first", "acquire", 59 * time.Second}, {"second", "acquire", 34 * time.Second}}, s.requests())
		require.NoError(t, hold.Unlock(t.Context()))
	})
}

func TestConnectionToHostThatIsDownIsGivenUpAfterTwoSeconds(t *testing.T) {
	before := http.DefaultTransport
	t.Cleanup(func() { http.DefaultTransport = before })
	faketime.Test(t, func(t *testing.T) {
		second := make(chan time.Time, 100)
		http.DefaultTransport = &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			if address == "second:80" {
				second <- time.Now()
			}
			<-ctx.Done() // no answer to any SYN
			return nil, ctx.Err()
		}}
		c := newClient(t, "http://first,http://second", nil)
		ctx, cancel := context.WithCancel(t.Context())
		began, ended := time.Now(), make(chan error, 1)
		go func() {
			_, err := c.Lock(ctx, "team", "orders")
			ended <- err
		}()
		require.Equal(t, 2*time.Second, (<-second).Sub(began))
		cancel()
		err := <-ended
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, client.ErrUncertain, "no request was sent")
	})
}

func TestWithdrawalReachesNextReplicaIfOneNeverAnswers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		c, s := scripted(t, "http://first,http://second", func(r request) (int, string) {
			if r.host == "first" {
				return 0, ""
			}
			return http.StatusConflict, held
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		began := time.Now()
		_, err := c.Lock(ctx, "team", "orders")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, client.ErrUncertain)
		require.Equal(t, time.Second+2500*time.Millisecond, time.Since(began))
		require.Equal(t, []string{"first", "first", "second"}, s.hosts())
	})
}

func TestWithdrawalIsRepeatedAtTheOnlyReplicaIfItDoesNotAnswer(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		sent := 0
		c, _ := scripted(t, "http://locks", func(request) (int, string) {
			if sent++; sent <= 2 { // the wait, the first withdrawal
				return 0, ""
			}
			return http.StatusConflict, held
		})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := c.Lock(ctx, "team", "orders")
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, client.ErrUncertain)
	})
}

func TestCallThatItsCallerCancelsKeepsTheReplica(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *client.Client){
		"Status": func(ctx context.Context, c *client.Client) { _, _ = c.Status(ctx, "team", "orders") },
		"Observe": func(ctx context.Context, c *client.Client) {
			for _, err := range c.Observe(ctx, "team", "orders") {
				if err != nil {
					return // ctx is done
				}
			}
		},
		"Hold.Unlock": func(ctx context.Context, c *client.Client) {
			hold, err := c.Lock(ctx, "team", "orders")
			if err == nil {
				time.Sleep(client.DefaultTTL/3 + time.Second) // a renewal waits for its answer
				_ = hold.Unlock(ctx)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				c, s := scripted(t, "http://first,http://second", func(r request) (int, string) {
					switch r.operation {
					case "acquire", "release", "readyz":
						return http.StatusOK, granted
					}
					return 0, ""
				})
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(client.DefaultTTL/3+2*time.Second, cancel)
				call(ctx, c)
				require.NoError(t, c.Ready(t.Context()))
				require.NotContains(t, s.hosts(), "second")
			})
		})
	}
}

// A suspended machine stops the monotonic clock and all timers, but not the wall clock.
func TestHoldEndsSoonAfterSuspendedMachineResumes(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, client.DefaultTTL, time.Hour} {
		faketime.Test(t, func(t *testing.T) {
			grant := strings.ReplaceAll(granted, "30000", strconv.FormatInt(ttl.Milliseconds(), 10))
			c, _ := scripted(t, "http://locks", func(request) (int, string) { return http.StatusOK, grant })
			var suspended atomic.Int64
			c.SetNow(func() time.Time { return time.Now().Round(0).Add(time.Duration(suspended.Load())) })
			hold, err := c.Lock(t.Context(), "team", "orders")
			require.NoError(t, err)
			synctest.Wait() // the hold's goroutines wait for their timers
			suspended.Store(int64(ttl))
			began := time.Now()
			<-hold.Done()
			require.ErrorIs(t, hold.Err(), client.ErrDeadline)
			require.LessOrEqual(t, time.Since(began), min(ttl/24, time.Second))
		})
	}
}
