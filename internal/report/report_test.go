// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

func newTestReporter(trace Hooks, logger slog.Handler) *Reporter {
	return New(trace, slog.New(logger))
}

func TestEventsAreReportedInOrderAndOneAtATime(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var reported []string // guarded only by the guarantee under test
		tell := func(event ...any) {
			reported = append(reported, strings.TrimSpace(fmt.Sprintln(event...)))
			time.Sleep(time.Millisecond)
		}
		r := newTestReporter(Hooks{
			SessionOpened: func(id int64, server string, timeout time.Duration) { tell("opened", id, server, timeout) },
			SessionEnded:  func(id int64, cause error) { tell("ended", id, cause) },
			Attached:      func(id int64, server string) { tell("attached", id, server) },
			Detached:      func(id int64, server string) { tell("detached", id, server) },
			Outage:        func(lasted time.Duration, cause error) { tell("outage", lasted, cause) },
			Heartbeat:     func(roundTrip time.Duration, err error) { tell("heartbeat", roundTrip, err) },
			Proved:        func(left, timeout time.Duration) { tell("proved", left, timeout) },
			Joined:        func(path, node string, contenders int) { tell("joined", path, node, contenders) },
			Waiting:       func(path, node, ahead string) { tell("waiting", path, node, ahead) },
			Granted: func(call Call, path, node string, token fencing.Token, waited time.Duration) {
				tell("granted", call.Context.Value(key{}), call.Context.Err(), call.Time.UTC().Format(time.TimeOnly), path, node, token, waited)
			},
			HandedOver: func(path, node string, _ int) { tell("handed over", path, node) },
			Unreleased: func(path string, former Former, delay time.Duration) {
				tell("unreleased", path, former.Owner, delay)
			},
			Failed: func(call Call, path string, waited time.Duration, err error) {
				tell("failed", call.Context.Value(key{}), path, waited, err)
			},
			Ended: func(call Call, path, node string, token fencing.Token, held time.Duration, cause error) {
				tell("ended", call.Context.Value(key{}), path, node, token, held, cause)
			},
			Lost:       func(path, node string, cause error) { tell("lost", path, node, cause) },
			Released:   func(path, node string, err error) { tell("released", path, node, err) },
			Rejoined:   func(path string, cause error) { tell("rejoined", path, cause) },
			Recovered:  func(path string, found bool, err error) { tell("recovered", path, found, err) },
			NotDeleted: func(node string, err error) { tell("not deleted", node, err) },
		}, slog.DiscardHandler)
		n := nodes.NewNode("/l", 1, "n")
		n.Path = "/l/x"
		why := errors.New("why")
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
		cancel()
		r.Opened(1, "zk1", time.Second, time.Second)
		r.Detached(1, "zk1")
		r.Attached(1, "zk2")
		r.Outage(time.Second, why)
		r.Heartbeat(time.Second, nil)
		r.Proved(time.Second, time.Minute)
		r.Joined("/l", "/l/x", 3)
		r.Waiting("/l", "/l/x", "w")
		r.Granted(ctx, "/l", "/l/x", 42, time.Second)
		r.HandedOver("/l", "/l/x", 0)
		r.Unreleased("/l", Former{Owner: "o"}, time.Second)
		r.Failed(ctx, "/l", time.Second, why)
		r.Over(ctx, "/l", "/l/x", 42, time.Second, why)
		r.Lost("/l", "/l/x", 42, why)
		r.Released("/l", "/l/x", nil)
		r.Rejoined("/l", why)
		r.Recovered("/l", true, nil)
		r.Undeleted(n, why)
		r.Ended(1, why)
		r.Close()
		require.Equal(t, []string{
			"opened 1 zk1 1s", "detached 1 zk1", "attached 1 zk2", "outage 1s why", "heartbeat 1s <nil>", "proved 1s 1m0s",
			"joined /l /l/x 3", "waiting /l /l/x w", "granted v <nil> 00:00:00 /l /l/x 42 1s", "handed over /l /l/x", "unreleased /l o 1s", "failed v /l 1s why", "ended v /l /l/x 42 1s why",
			"lost /l /l/x why", "released /l /l/x <nil>", "rejoined /l why", "recovered /l true <nil>", "not deleted /l/x why", "ended 1 why",
		}, reported)
	})
}

func TestTraceWithoutFunctionsIsNotCalled(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newTestReporter(Hooks{}, slog.DiscardHandler)
		r.Opened(1, "zk1", time.Second, 2*time.Second)
		r.Detached(1, "zk1")
		r.Attached(1, "zk1")
		r.Outage(time.Second, sentinel.ErrDeadline)
		r.Heartbeat(time.Second, nil)
		r.Proved(time.Second, time.Minute)
		r.Joined("/l", "/l/x", 3)
		r.Waiting("/l", "/l/x", "w")
		r.Granted(t.Context(), "/l", "/l/x", 42, 0)
		r.HandedOver("/l", "/l/x", 0)
		r.Unreleased("/l", Former{}, time.Second)
		r.Failed(t.Context(), "/l", time.Second, sentinel.ErrDeadline)
		r.Over(t.Context(), "/l", "/l/x", 42, time.Second, sentinel.ErrDeadline)
		r.Lost("/l", "/l/x", 42, sentinel.ErrDeadline)
		r.Released("/l", "/l/x", nil)
		r.Rejoined("/l", sentinel.ErrDeadline)
		r.Recovered("/l", true, nil)
		r.Undeleted(nodes.NewNode("/l", 1, "n"), sentinel.ErrDeadline)
		r.Ended(1, sentinel.ErrClosed)
		r.Close()
		require.Zero(t, r.dropped.Load())
	})
}

func TestBlockedFunctionBlocksNothingButFunctionsAndWhatIsDroppedIsCounted(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		calls := 0
		r := newTestReporter(Hooks{Heartbeat: func(time.Duration, error) {
			<-blocked
			calls++
		}}, slog.DiscardHandler)
		r.Heartbeat(0, nil)
		synctest.Wait() // it is in the function now
		for range reportQueue {
			r.Heartbeat(0, nil)
		}
		require.Zero(t, r.dropped.Load())
		for range 7 {
			r.Heartbeat(0, nil)
		}
		require.Equal(t, int64(7), r.dropped.Load())
		close(blocked)
		r.Close()
		require.Equal(t, 1+reportQueue, calls, "close reports the queued events")
	})
}

func TestCloseWaitsForTheLastFunction(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		returned := false
		r := newTestReporter(Hooks{Heartbeat: func(time.Duration, error) {
			time.Sleep(time.Minute)
			returned = true
		}}, slog.DiscardHandler)
		r.Heartbeat(0, nil)
		r.Close()
		require.True(t, returned)
	})
}

// records is a slog.Handler that keeps its records.
type records struct{ all []slog.Record }

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.all = append(r.all, record)
	return nil
}
func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *records) WithGroup(string) slog.Handler      { return r }

func (r *records) text() []string {
	var lines []string
	for _, record := range r.all {
		line := record.Level.String() + " " + record.Message
		record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		lines = append(lines, line)
	}
	return lines
}

func TestTimeoutOtherThanTheOneAskedForIsLogged(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var log records
		r := newTestReporter(Hooks{}, &log)
		r.Opened(0x1a, "zk1:2181", 10*time.Second, 10*time.Second)
		r.Opened(0x1b, "zk1:2181", 10*time.Second, 4*time.Second)
		r.Opened(0x1c, "zk1:2181", 2*time.Second, 4*time.Second)
		r.Close()
		const another = "WARN zookeeper granted another session timeout than requested: its configuration bounds it "
		require.Equal(t, []string{
			"DEBUG zookeeper session opened session=0x1a server=zk1:2181 timeout=10s",
			another + "requested=10s granted=4s bound=maxSessionTimeout server=zk1:2181",
			"DEBUG zookeeper session opened session=0x1b server=zk1:2181 timeout=4s",
			another + "requested=2s granted=4s bound=minSessionTimeout server=zk1:2181",
			"DEBUG zookeeper session opened session=0x1c server=zk1:2181 timeout=4s",
		}, log.text())
	})
}

func TestLogOfTheZooKeeperClientIsForDebugging(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var log records
		r := newTestReporter(Hooks{}, &log)
		r.Printf("failed to connect to %s: %v", "zk1", errors.New("refused"))
		r.Close()
		require.Equal(t, []string{"DEBUG zookeeper client: failed to connect to zk1: refused"}, log.text())
	})
}

func TestSubscriberGetsThePresentStatusThenTheNewestAndNothingAfterItHasUnsubscribed(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		r := newTestReporter(Hooks{}, slog.DiscardHandler)
		sub := r.Subscribe(func() session.Status { return session.Status{ID: 1} })
		status, ok := sub.Next(t.Context())
		require.True(t, ok)
		require.EqualValues(t, 1, status.ID)
		r.Changed(session.Status{ID: 2})
		r.Changed(session.Status{ID: 3})
		status, ok = sub.Next(t.Context())
		require.True(t, ok)
		require.EqualValues(t, 3, status.ID)
		r.Unsubscribe(sub)
		require.Empty(t, r.states.subs)
		r.Close()
	})
}

// key is the key of a value in a context.
type key struct{}
