// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A Trace is a set of hooks for the events in a client, for instance for metrics. Every
// field may be nil.
//
// The functions are called one at a time, in the order of the events, on their own
// goroutine: a slow one delays only those after it. While 1024 calls are waiting,
// further events are dropped and counted, except those of Lost: see
// Client.DroppedEvents. Client.Close waits for the queued calls. Code that must see
// every change of the session uses Client.States.
type Trace struct {
	// SessionOpened is called when a session exists.
	SessionOpened func(session int64, server string, timeout time.Duration)
	// SessionEnded is called when a session is over, with the cause.
	SessionEnded func(session int64, cause error)
	// Attached is called when a server serves the session again.
	Attached func(session int64, server string)
	// Detached is called when the connection to the server ended. No claim is lost
	// yet.
	Detached func(session int64, server string)
	// Outage is called when no server has served the client for T/4, with the reason.
	// Attached, SessionEnded or SessionOpened follows when the outage ends.
	Outage func(lasted time.Duration, cause error)
	// Heartbeat is called when a heartbeat was answered or failed.
	Heartbeat func(roundTrip time.Duration, err error)
	// Proved is called when a heartbeat proved that the session lives, while the client
	// held claims. left is how long before their deadline that was, and 0 after it;
	// timeout is the session timeout T.
	Proved func(left, timeout time.Duration)
	// Joined is called when a contender has joined the queue. contenders is how many
	// nodes the queue then had, including the contender's own; 0 if the server did not
	// report that.
	Joined func(path, node string, contenders int)
	// Waiting is called when a contender begins to wait for its predecessor.
	Waiting func(path, node, ahead string)
	// Granted is called when a contender is granted the claim. waited is the time since
	// the call for it began.
	Granted func(path, node string, token fencing.Token, waited time.Duration)
	// HandedOver is called after Granted if the contender had waited for a predecessor, whether
	// or not a leader has named it: see election.Term.HandOver for that.
	HandedOver func(path, node string)
	// Unreleased is called when a claim with a lock-delay or a fence function has found that the former
	// holder did not release, before the claim waits for the rest of the delay. Each call that finds the
	// same former holder reports it.
	Unreleased func(path string, former FormerHolder, delay time.Duration)
	// Failed is called when a call for a claim has returned an error, after the time
	// that it waited: its context is done, for instance, or the queue was not empty.
	Failed func(path string, waited time.Duration, err error)
	// Ended is called when a claim has ended, with how long it was held, and why:
	// ErrReleased, or the cause of the loss.
	Ended func(path, node string, held time.Duration, cause error)
	// Lost is called when a claim has ended other than by its holder. No call is
	// dropped.
	Lost func(path, node string, cause error)
	// Released is called when a holder has released a claim, with the error that
	// Release returned.
	Released func(path, node string, err error)
	// Rejoined is called when a waiter joins again at the end of the queue, because
	// its session is over, its node was deleted, or it has stepped back.
	Rejoined func(path string, cause error)
	// Recovered is called after a search for the node of a create that was not
	// answered.
	Recovered func(path string, found bool, err error)
	// Expired is called when this client has deleted the node of a lease that its holder
	// had not renewed in time, or that of a claim that was revoked.
	Expired func(node string)
	// NotDeleted is called when a node could not be deleted yet. The client tries again.
	NotDeleted func(node string, err error)

	_ struct{}
}

// reportQueue is how many events may wait to be reported.
const reportQueue = 1024

// A reporter reports to the log and to the trace, each on its own goroutine: neither can
// delay a deadline or the other.
type reporter struct {
	trace   Trace
	logger  *slog.Logger
	tells   *background.Mailbox // to the trace
	logs    *background.Mailbox // to the logger
	states  broadcast
	dropped atomic.Int64
}

func newReporter(trace Trace, logger *slog.Logger) *reporter {
	return &reporter{trace: trace, logger: logger, tells: background.NewMailbox(), logs: background.NewMailbox()}
}

// close reports the queued events, and ends. It waits for a blocked logger only for a
// bounded time.
func (r *reporter) close() {
	r.states.close()
	r.tells.Close()
	<-r.tells.Stopped()
	r.logs.Close()
	timer := time.NewTimer(session.CloseTimeout)
	defer timer.Stop()
	select {
	case <-r.logs.Stopped():
	case <-timer.C:
	}
}

func (r *reporter) tell(f func()) {
	if !r.tells.Post(f, reportQueue) {
		r.dropped.Add(1)
	}
}

func (r *reporter) log(level slog.Level, msg string, args ...any) {
	f := func() { r.logger.Log(context.Background(), level, msg, args...) }
	if !r.logs.Post(f, reportQueue) {
		r.dropped.Add(1)
	}
}

func (r *reporter) opened(id int64, server string, asked, got time.Duration) {
	if asked != got {
		bound := "minSessionTimeout"
		if got < asked {
			bound = "maxSessionTimeout"
		}
		r.log(slog.LevelWarn, "zookeeper granted another session timeout than requested: its configuration bounds it",
			"requested", asked, "granted", got, "bound", bound, "server", server)
	}
	r.log(slog.LevelDebug, "zookeeper session opened", "session", hex(id), "server", server, "timeout", got)
	if f := r.trace.SessionOpened; f != nil {
		r.tell(func() { f(id, server, got) })
	}
}

func (r *reporter) ended(id int64, cause error) {
	r.log(slog.LevelInfo, "zookeeper session ended", "session", hex(id), "cause", cause)
	if f := r.trace.SessionEnded; f != nil {
		r.tell(func() { f(id, cause) })
	}
}

func (r *reporter) Attached(id int64, server string) {
	r.log(slog.LevelDebug, "zookeeper session attached", "session", hex(id), "server", server)
	if f := r.trace.Attached; f != nil {
		r.tell(func() { f(id, server) })
	}
}

func (r *reporter) Detached(id int64, server string) {
	r.log(slog.LevelDebug, "zookeeper session detached", "session", hex(id), "server", server)
	if f := r.trace.Detached; f != nil {
		r.tell(func() { f(id, server) })
	}
}

// Outage and OutageEnded log for an operator what Detached and Attached report to
// programs, but only for outages that last. Programs also receive Outage.
func (r *reporter) Outage(lasted time.Duration, why error) {
	r.outageLasts(lasted, why)
	if f := r.trace.Outage; f != nil {
		r.tell(func() { f(lasted, why) })
	}
}

// outageLasts logs an outage, of which programs are notified once.
func (r *reporter) outageLasts(lasted time.Duration, why error) {
	r.log(slog.LevelWarn, "no zookeeper server serves the session", "for", lasted, "error", why)
}

func (r *reporter) OutageEnded(server string, lasted time.Duration) {
	r.log(slog.LevelWarn, "a zookeeper server serves the session again", "server", server, "after", lasted)
}

func (r *reporter) Heartbeat(roundTrip time.Duration, err error) {
	if f := r.trace.Heartbeat; f != nil {
		r.tell(func() { f(roundTrip, err) })
	}
}

func (r *reporter) Proved(left, timeout time.Duration) {
	if f := r.trace.Proved; f != nil {
		r.tell(func() { f(left, timeout) })
	}
}

func (r *reporter) joined(path, node string, contenders int) {
	if f := r.trace.Joined; f != nil {
		r.tell(func() { f(path, node, contenders) })
	}
}

func (r *reporter) waiting(path, node, ahead string) {
	if f := r.trace.Waiting; f != nil {
		r.tell(func() { f(path, node, ahead) })
	}
}

func (r *reporter) granted(path, node string, token fencing.Token, waited time.Duration) {
	if f := r.trace.Granted; f != nil {
		r.tell(func() { f(path, node, token, waited) })
	}
}

func (r *reporter) handedOver(path, node string) {
	if f := r.trace.HandedOver; f != nil {
		r.tell(func() { f(path, node) })
	}
}

func (r *reporter) failed(path string, waited time.Duration, err error) {
	if f := r.trace.Failed; f != nil {
		r.tell(func() { f(path, waited, err) })
	}
}

func (r *reporter) over(path, node string, held time.Duration, cause error) {
	if f := r.trace.Ended; f != nil {
		r.tell(func() { f(path, node, held, cause) })
	}
}

func (r *reporter) lost(path, node string, token fencing.Token, cause error) {
	r.log(slog.LevelWarn, "claim lost", "path", node, "token", token, "cause", cause)
	if f := r.trace.Lost; f != nil {
		r.tells.Post(func() { f(path, node, cause) }, background.Unbounded)
	}
}

func (r *reporter) released(path, node string, err error) {
	if f := r.trace.Released; f != nil {
		r.tell(func() { f(path, node, err) })
	}
}

func (r *reporter) unreleased(path string, former FormerHolder, delay time.Duration) {
	r.log(slog.LevelWarn, "the former holder did not release the claim", "path", path, "token", former.Token, "owner", former.Owner,
		"host", former.Host, "pid", former.PID, "wait", delay)
	if f := r.trace.Unreleased; f != nil {
		r.tell(func() { f(path, former, delay) })
	}
}

func (r *reporter) rejoined(path string, cause error) {
	r.log(slog.LevelInfo, "joining the queue again", "path", path, "cause", cause)
	if f := r.trace.Rejoined; f != nil {
		r.tell(func() { f(path, cause) })
	}
}

func (r *reporter) recovered(path string, found bool, err error) {
	r.log(slog.LevelDebug, "searched for the node of a create that was not answered", "path", path, "found", found, "error", err)
	if f := r.trace.Recovered; f != nil {
		r.tell(func() { f(path, found, err) })
	}
}

func (r *reporter) expired(node string) {
	r.log(slog.LevelInfo, "deleted the node of a lease that was not renewed in time", "node", node)
	if f := r.trace.Expired; f != nil {
		r.tell(func() { f(node) })
	}
}

// Changed publishes the session's state. A session calls it after Attached or Detached.
func (r *reporter) Changed(now session.Status) { r.states.send(stateOf(now)) }

func (r *reporter) Undeleted(p *session.Node, err error) {
	r.log(slog.LevelWarn, "node could not be deleted yet", "path", p.Parent, "node", p.Path, "error", err)
	if f := r.trace.NotDeleted; f != nil {
		node := p.Path // read here, as the next sweep may set it
		r.tell(func() { f(node, err) })
	}
}

func (r *reporter) Stuck() {
	r.log(slog.LevelWarn, "Options.Dial, or the Close of a connection that it made, has not returned: its goroutine is left behind")
}

// clientLogger passes on the ZooKeeper client's log at debug level, as that client logs
// every failed attempt.
type clientLogger struct{ report *reporter }

func (l clientLogger) Printf(format string, args ...any) {
	l.report.log(slog.LevelDebug, "zookeeper client: "+fmt.Sprintf(format, args...))
}
