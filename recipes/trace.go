// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A Trace is told of what happens in a client: hooks for metrics. Every field may be
// nil.
//
// The functions are called one at a time, in the order of the events, on a
// goroutine of their own: a slow one delays those after it and nothing else.
// While 1024 calls are waiting, further events are dropped and counted, those of Lost
// excepted: Client.DroppedEvents. Client.Close waits for those that were queued. What
// must see every change of the session uses Client.States.
type Trace struct {
	// SessionOpened is called when a session exists.
	SessionOpened func(session int64, server string, timeout time.Duration)
	// SessionEnded is called when a session is over, with the reason.
	SessionEnded func(session int64, cause error)
	// Attached is called when a server serves the session again.
	Attached func(session int64, server string)
	// Detached is called when the connection to the server ended. Nothing is lost
	// yet.
	Detached func(session int64, server string)
	// Heartbeat is called when a heartbeat was answered, or has failed.
	Heartbeat func(roundTrip time.Duration, err error)
	// Waiting is called when a contender begins to wait for the one ahead of it.
	Waiting func(path, node, ahead string)
	// Granted is called when a contender has the claim.
	Granted func(path, node string, token fencing.Token, waited time.Duration)
	// Lost is called when a claim has ended other than by its holder. It is called for
	// every one.
	Lost func(path, node string, cause error)
	// Released is called when a holder has given a claim up, with what Release
	// returned.
	Released func(path, node string, err error)
	// Rejoined is called when a waiter begins anew at the end of the line, because
	// its session is over or its node was deleted.
	Rejoined func(path string, cause error)
	// Recovered is called when it was found out what became of a create that was
	// not answered.
	Recovered func(path string, found bool, err error)
	// Owed is called when a node could not be deleted yet.
	Owed func(node string, err error)

	_ struct{}
}

// reportQueue is how many events may wait to be reported.
const reportQueue = 1024

// A reporter reports to the log and to the trace, on a goroutine for each: neither runs
// where it could hold up a deadline, nor the other.
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

// close reports what is queued, and ends. It does not wait for ever for a logger.
func (r *reporter) close() {
	r.states.close()
	r.tells.Close()
	<-r.tells.Stopped()
	r.logs.Close()
	timer := time.NewTimer(session.Stragglers)
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
		r.log(slog.LevelWarn, "zookeeper granted another session timeout than was asked for", "asked", asked, "granted", got, "server", server)
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

// Outage and OutageEnded tell people what Detached and Attached tell programs, of
// outages only that last.
func (r *reporter) Outage(lasted time.Duration, why error) {
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

func (r *reporter) rejoined(path string, cause error) {
	r.log(slog.LevelInfo, "joining the line again", "path", path, "cause", cause)
	if f := r.trace.Rejoined; f != nil {
		r.tell(func() { f(path, cause) })
	}
}

func (r *reporter) recovered(path string, found bool, err error) {
	r.log(slog.LevelDebug, "looked for a node whose creation was not answered", "path", path, "found", found, "error", err)
	if f := r.trace.Recovered; f != nil {
		r.tell(func() { f(path, found, err) })
	}
}

// Changed is what a session calls after Attached or Detached.
func (r *reporter) Changed(now session.Status) { r.states.send(stateOf(now)) }

func (r *reporter) Undeleted(p *session.Node, err error) {
	r.log(slog.LevelWarn, "node could not be deleted yet", "path", p.Parent, "node", p.Path, "error", err)
	if f := r.trace.Owed; f != nil {
		node := p.Path // which the next sweep may come to know
		r.tell(func() { f(node, err) })
	}
}

func (r *reporter) Stuck() {
	r.log(slog.LevelWarn, "the Dial of the options, or the Close of a connection that it made, has not returned: its goroutine is left behind")
}

// clientLogger passes on what the ZooKeeper client says, which speaks of every
// failed attempt in a tone of its own.
type clientLogger struct{ report *reporter }

func (l clientLogger) Printf(format string, args ...any) {
	l.report.log(slog.LevelDebug, "zookeeper client: "+fmt.Sprintf(format, args...))
}
