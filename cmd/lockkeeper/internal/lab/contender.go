// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// path is the path of the lock.
const path = "/lab/ledger"

// workTime is how long a holder works between its check of the hold and its write.
const workTime = 400 * time.Millisecond

// The orders that a contender obeys.
const (
	orderJoin  = "join"  // queue for the lock
	orderLeave = "leave" // leave the queue, or release the lock
)

// A report is what a contender knows about itself.
type report struct {
	Kind    string        `json:"kind"` // as below
	Session int64         `json:"session,omitempty"`
	Node    string        `json:"node,omitempty"` // of opWaits: the predecessor's
	Token   fencing.Token `json:"token,omitempty"`
	Found   bool          `json:"found,omitempty"`
	Text    string        `json:"text,omitempty"` // of an error
}

// The kinds of reports.
const (
	isOpened    = "opened"    // Session
	isAttached  = "attached"  // Session: it moved to a server
	isDetached  = "detached"  // its connection ended
	isEnded     = "ended"     // Session, Text: the session is over
	isWaiting   = "waiting"   // Node
	isGranted   = "granted"   // Token
	isLost      = "lost"      // Text
	isReleased  = "released"  // by an order
	isOut       = "out"       // by an order: it has left the queue
	isRecovered = "recovered" // Found: it has searched for a node whose creation was not answered
	isWorking   = "working"   // it has checked its hold, and begins the work for its next write
	isFailed    = "failed"    // Text
)

// A contender queues for the lock, and writes to the registers while it holds it. It is the same code in a process of a running
// laboratory and in a recording.
type contender struct {
	name    string
	servers []string
	timeout time.Duration
	dial    func(ctx context.Context, network, address string) (net.Conn, error) // nil for sockets
	write   func(ctx context.Context, register string, w write) error
	report  func(report)
	orders  <-chan string
	writes  int         // so far
	leaving atomic.Bool // it was ordered to leave while it held
}

// run contends until ctx ends or an error that is not of the lock.
func (c *contender) run(ctx context.Context) error {
	client, err := recipes.Connect(ctx, c.servers, &recipes.Options{
		SessionTimeout: c.timeout, Owner: c.name, Dial: c.dial,
		Logger: slog.New(slog.DiscardHandler), // the reports have the same events
		Trace:  c.trace(),
	})
	if err != nil {
		return fmt.Errorf("contender %s: %w", c.name, err)
	}
	defer client.Close()
	mu, err := lock.New(client, path, nil)
	if err != nil {
		return fmt.Errorf("contender %s: %w", c.name, err)
	}
	for ctx.Err() == nil {
		select {
		case order := <-c.orders:
			if order == orderJoin {
				err = c.contend(ctx, mu)
			}
		case <-ctx.Done():
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("contender %s: %w", c.name, err)
		}
	}
	return nil
}

// trace returns hooks that report. They are called one at a time, in the order of the events.
func (c *contender) trace() *recipes.Trace {
	return &recipes.Trace{
		SessionOpened: func(e recipes.SessionEvent) { c.report(report{Kind: isOpened, Session: e.Session}) },
		Attached:      func(e recipes.SessionEvent) { c.report(report{Kind: isAttached, Session: e.Session}) },
		Detached:      func(recipes.SessionEvent) { c.report(report{Kind: isDetached}) },
		SessionEnded: func(e recipes.SessionEvent) {
			c.report(report{Kind: isEnded, Session: e.Session, Text: e.Err.Error()})
		},
		Waiting: func(e recipes.QueueEvent) { c.report(report{Kind: isWaiting, Node: e.Ahead}) },
		Granted: func(e recipes.QueueEvent) { c.report(report{Kind: isGranted, Token: e.Token}) },
		Lost:    func(e recipes.QueueEvent) { c.report(report{Kind: isLost, Text: cause(e.Err).Error()}) },
		Released: func(e recipes.QueueEvent) {
			switch left := c.leaving.Swap(false); {
			case !errors.Is(e.Err, recipes.ErrLost):
				c.report(report{Kind: isReleased, Text: text(e.Err)})
			case left: // otherwise it queues again
				c.report(report{Kind: isOut})
			}
		},
		Failed: func(e recipes.QueueEvent) {
			if errors.Is(e.Err, context.Canceled) {
				c.report(report{Kind: isOut})
			}
		},
		Recovered: func(e recipes.QueueEvent) { c.report(report{Kind: isRecovered, Found: e.Found, Text: text(e.Err)}) },
	}
}

// text returns the text of an error, empty for nil.
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// cause returns why a hold was lost, without the path that all holds share.
func cause(err error) error {
	for _, cause := range []error{recipes.ErrDeadline, recipes.ErrSessionExpired, recipes.ErrDeleted} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return err
}

// contend queues and works until it is ordered to leave. After a loss it queues again.
func (c *contender) contend(ctx context.Context, mu *lock.Mutex) error {
	for {
		hold, err := c.acquire(ctx, mu)
		if hold == nil {
			return err
		}
		if left := c.work(ctx, hold); left || ctx.Err() != nil {
			return nil
		}
	}
}

// acquire waits for the lock. The hold is nil if it is ordered to leave.
func (c *contender) acquire(ctx context.Context, mu *lock.Mutex) (*lock.Hold, error) {
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	type result struct {
		hold *lock.Hold
		err  error
	}
	locked := make(chan result, 1)
	go func() {
		hold, err := mu.Lock(waiting)
		locked <- result{hold, err}
	}()
	left := false
	for {
		select {
		case order := <-c.orders:
			left = order == orderLeave
			if left {
				leave()
			}
		case r := <-locked:
			switch {
			case r.err == nil && left:
				return nil, r.hold.Unlock(ctx)
			case r.err == nil || ctx.Err() == nil && waiting.Err() == nil:
				return r.hold, r.err
			case left || ctx.Err() != nil:
				return nil, nil
			}
			return c.acquire(ctx, mu) // it was ordered to join again before it had left
		}
	}
}

// work writes until the hold ends, and reports whether it was ordered to leave. As much real work, it does not look at the hold
// between its check and its write.
func (c *contender) work(ctx context.Context, hold *lock.Hold) (left bool) {
	defer func() {
		// Of a hold that was lost, it states that the work has stopped. The trace reports the error.
		_ = hold.Unlock(ctx)
	}()
	for hold.Err() == nil {
		c.report(report{Kind: isWorking})
		select {
		case <-time.After(workTime):
		case order := <-c.orders:
			if order == orderLeave {
				c.leaving.Store(true)
				return true
			}
		case <-ctx.Done():
			return false
		}
		c.writes++
		w := write{Writer: c.name, Value: fmt.Sprintf("%s-%d", c.name, c.writes), Token: hold.Token()}
		for _, name := range []string{fenced, bare} {
			err := c.write(ctx, name, w)
			if err != nil && !errors.Is(err, fencing.ErrStale) && ctx.Err() == nil { // a register reports a stale write itself
				c.report(report{Kind: isFailed, Text: fmt.Sprintf("write %q to the %s register: %v", w.Value, name, err)})
			}
		}
	}
	return false
}
