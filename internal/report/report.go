// SPDX-License-Identifier: Apache-2.0

// Package report passes on the events of a client to its trace and its log, and its states to subscribers.
package report

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// Hooks are the functions of a trace. Each may be nil.
type Hooks struct {
	SessionOpened func(session int64, server string, timeout time.Duration)
	SessionEnded  func(session int64, cause error)
	Attached      func(session int64, server string)
	Detached      func(session int64, server string)
	Outage        func(lasted time.Duration, cause error)
	Heartbeat     func(roundTrip time.Duration, err error)
	Proved        func(left, timeout time.Duration)
	Joined        func(path, node string, contenders int)
	Waiting       func(path, node, ahead string)
	Granted       func(call Call, path, node string, token fencing.Token, waited time.Duration)
	HandedOver    func(path, node string, listings int)
	Unreleased    func(path string, former Former, delay time.Duration)
	Failed        func(call Call, path string, waited time.Duration, err error)
	Ended         func(call Call, path, node string, token fencing.Token, held time.Duration, cause error)
	Lost          func(path, node string, cause error)
	Released      func(path, node string, err error)
	Rejoined      func(path string, cause error)
	Recovered     func(path string, found bool, err error)
	Expired       func(node string)
	NotDeleted    func(node string, err error)
	Unguarded     func(session int64, cause error)
}

// A Call is the call for a claim that an event belongs to.
type Call struct {
	Context context.Context // its values, without its cancellation and deadline
	Time    time.Time       // of the event
}

// callOf returns the call with the context, and the event's time: now.
func callOf(ctx context.Context) Call {
	return Call{Context: context.WithoutCancel(ctx), Time: time.Now()}
}

// A Former is a holder that did not release its claim.
type Former struct {
	Token fencing.Token
	Owner string // label
	Host  string
	PID   int
	Since time.Time // when it took the claim, by the clock of its host
}

// reportQueue is how many events may wait to be reported.
const reportQueue = 1024

// A Reporter reports to the log and to the trace, each on its own goroutine: neither can
// delay a deadline or the other.
//
// Its other methods report the event that their name gives, and call the function of the trace that has it.
type Reporter struct {
	trace   Hooks
	logger  *slog.Logger
	tells   *background.Mailbox // to the trace
	logs    *background.Mailbox // to the logger
	states  broadcast
	dropped atomic.Int64
}

// New returns a reporter to the trace and the logger.
func New(trace Hooks, logger *slog.Logger) *Reporter {
	return &Reporter{trace: trace, logger: logger, tells: background.NewMailbox(), logs: background.NewMailbox()}
}

// Close reports the queued events, and ends. It waits for a blocked logger only for a
// bounded time.
func (r *Reporter) Close() {
	r.states.close()
	r.tells.Close()
	<-r.tells.Stopped()
	r.logs.Close()
	select {
	case <-r.logs.Stopped():
	case <-time.After(session.CloseTimeout):
	}
}

// Subscribe returns a subscriber that begins with the present status.
func (r *Reporter) Subscribe(present func() session.Status) *subscriber {
	return r.states.subscribe(present)
}

// Unsubscribe ends the subscription.
func (r *Reporter) Unsubscribe(sub *subscriber) { r.states.unsubscribe(sub) }

// Dropped returns how many events the trace and the log have missed.
func (r *Reporter) Dropped() int64 { return r.dropped.Load() }

func (r *Reporter) tell(f func()) {
	if !r.tells.Post(f, reportQueue) {
		r.dropped.Add(1)
	}
}

// Log writes to the log, as soon as the logger has taken the messages before.
func (r *Reporter) Log(level slog.Level, msg string, args ...any) {
	f := func() { r.logger.Log(context.Background(), level, msg, args...) }
	if !r.logs.Post(f, reportQueue) {
		r.dropped.Add(1)
	}
}

func (r *Reporter) Opened(id int64, server string, asked, got time.Duration) {
	if asked != got {
		bound := "minSessionTimeout"
		if got < asked {
			bound = "maxSessionTimeout"
		}
		r.Log(slog.LevelWarn, "zookeeper granted another session timeout than requested: its configuration bounds it",
			"requested", asked, "granted", got, "bound", bound, "server", server)
	}
	r.Log(slog.LevelDebug, "zookeeper session opened", "session", session.FormatID(id), "server", server, "timeout", got)
	if f := r.trace.SessionOpened; f != nil {
		r.tell(func() { f(id, server, got) })
	}
}

func (r *Reporter) Ended(id int64, cause error) {
	r.Log(slog.LevelInfo, "zookeeper session ended", "session", session.FormatID(id), "cause", cause)
	if f := r.trace.SessionEnded; f != nil {
		r.tell(func() { f(id, cause) })
	}
}

func (r *Reporter) Unguarded(id int64, cause error) {
	r.Log(slog.LevelWarn, "zookeeper session is not guarded: if this process is killed, its locks are free after the session timeout",
		"session", session.FormatID(id), "cause", cause)
	if f := r.trace.Unguarded; f != nil {
		r.tell(func() { f(id, cause) })
	}
}

func (r *Reporter) Attached(id int64, server string) {
	r.Log(slog.LevelDebug, "zookeeper session attached", "session", session.FormatID(id), "server", server)
	if f := r.trace.Attached; f != nil {
		r.tell(func() { f(id, server) })
	}
}

func (r *Reporter) Detached(id int64, server string) {
	r.Log(slog.LevelDebug, "zookeeper session detached", "session", session.FormatID(id), "server", server)
	if f := r.trace.Detached; f != nil {
		r.tell(func() { f(id, server) })
	}
}

// Outage and OutageEnded log for an operator what Detached and Attached report to
// programs, but only for outages that last. Programs also receive Outage.
func (r *Reporter) Outage(lasted time.Duration, why error) {
	r.OutageLasts(lasted, why)
	if f := r.trace.Outage; f != nil {
		r.tell(func() { f(lasted, why) })
	}
}

// OutageLasts logs an outage, of which programs are notified once.
func (r *Reporter) OutageLasts(lasted time.Duration, why error) {
	r.Log(slog.LevelWarn, "no zookeeper server serves the session", "for", lasted, "error", why)
}

func (r *Reporter) OutageEnded(server string, lasted time.Duration) {
	r.Log(slog.LevelWarn, "a zookeeper server serves the session again", "server", server, "after", lasted)
}

func (r *Reporter) Heartbeat(roundTrip time.Duration, err error) {
	if f := r.trace.Heartbeat; f != nil {
		r.tell(func() { f(roundTrip, err) })
	}
}

func (r *Reporter) Proved(left, timeout time.Duration) {
	if f := r.trace.Proved; f != nil {
		r.tell(func() { f(left, timeout) })
	}
}

func (r *Reporter) Joined(path, node string, contenders int) {
	if f := r.trace.Joined; f != nil {
		r.tell(func() { f(path, node, contenders) })
	}
}

func (r *Reporter) Waiting(path, node, ahead string) {
	if f := r.trace.Waiting; f != nil {
		r.tell(func() { f(path, node, ahead) })
	}
}

func (r *Reporter) Granted(ctx context.Context, path, node string, token fencing.Token, waited time.Duration) {
	if f := r.trace.Granted; f != nil {
		call := callOf(ctx)
		r.tell(func() { f(call, path, node, token, waited) })
	}
}

func (r *Reporter) HandedOver(path, node string, listings int) {
	if f := r.trace.HandedOver; f != nil {
		r.tell(func() { f(path, node, listings) })
	}
}

func (r *Reporter) Failed(ctx context.Context, path string, waited time.Duration, err error) {
	if f := r.trace.Failed; f != nil {
		call := callOf(ctx)
		r.tell(func() { f(call, path, waited, err) })
	}
}

// Over reports the end of a claim; ctx is the context of the call that has claimed it.
func (r *Reporter) Over(ctx context.Context, path, node string, token fencing.Token, held time.Duration, cause error) {
	if f := r.trace.Ended; f != nil {
		call := callOf(ctx)
		r.tell(func() { f(call, path, node, token, held, cause) })
	}
}

func (r *Reporter) Lost(path, node string, token fencing.Token, cause error) {
	r.Log(slog.LevelWarn, "claim lost", "path", node, "token", token, "cause", cause)
	if f := r.trace.Lost; f != nil {
		r.tells.Post(func() { f(path, node, cause) }, background.Unbounded)
	}
}

func (r *Reporter) Released(path, node string, err error) {
	if f := r.trace.Released; f != nil {
		r.tell(func() { f(path, node, err) })
	}
}

func (r *Reporter) Unreleased(path string, former Former, delay time.Duration) {
	r.Log(slog.LevelWarn, "the former holder did not release the claim", "path", path, "token", former.Token, "owner", former.Owner,
		"host", former.Host, "pid", former.PID, "wait", delay)
	if f := r.trace.Unreleased; f != nil {
		r.tell(func() { f(path, former, delay) })
	}
}

func (r *Reporter) Rejoined(path string, cause error) {
	r.Log(slog.LevelInfo, "joining the queue again", "path", path, "cause", cause)
	if f := r.trace.Rejoined; f != nil {
		r.tell(func() { f(path, cause) })
	}
}

func (r *Reporter) Recovered(path string, found bool, err error) {
	r.Log(slog.LevelDebug, "searched for the node of a create that was not answered", "path", path, "found", found, "error", err)
	if f := r.trace.Recovered; f != nil {
		r.tell(func() { f(path, found, err) })
	}
}

func (r *Reporter) Expired(node string) {
	r.Log(slog.LevelInfo, "deleted the node of a lease that was not renewed in time", "node", node)
	if f := r.trace.Expired; f != nil {
		r.tell(func() { f(node) })
	}
}

// Changed publishes the session's state. A session calls it after Attached or Detached.
func (r *Reporter) Changed(now session.Status) { r.states.send(now) }

func (r *Reporter) Undeleted(p *nodes.Node, err error) {
	r.Log(slog.LevelWarn, "node could not be deleted yet", "path", p.Parent, "node", p.Path, "error", err)
	if f := r.trace.NotDeleted; f != nil {
		node := p.Path // read here, as the next sweep may set it
		r.tell(func() { f(node, err) })
	}
}

func (r *Reporter) Stuck() {
	r.Log(slog.LevelWarn, "Options.Dial, or the Close of a connection that it made, has not returned: its goroutine is left behind")
}

// Printf passes on the ZooKeeper client's log at debug level, as that client logs
// every failed attempt.
func (r *Reporter) Printf(format string, args ...any) {
	r.Log(slog.LevelDebug, "zookeeper client: "+fmt.Sprintf(format, args...))
}
