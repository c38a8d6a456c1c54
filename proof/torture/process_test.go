// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/register"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// scripted returns a contender that is a shell script.
func scripted(t *testing.T, script string) *contender {
	t.Helper()
	s := &run{
		opts: &Options{Contender: []string{"sh", "-c", script}, Timeout: 4 * time.Second}, time: clock.Start(),
		result: &verdict.Result{},
	}
	var err error
	s.registers, err = register.New(s.time, s.recorder.add, false)
	require.NoError(t, err)
	c := &contender{run: s, number: 1, clients: 1}
	s.contenders = []*contender{c}
	require.NoError(t, c.start())
	t.Cleanup(func() { require.NoError(t, s.cleanUp()) })
	return c
}

// crashes returns when contenders crashed.
func crashes(r *recorder) []history.Instant {
	var at []history.Instant
	for _, e := range r.history() {
		if e.Kind == history.Crashed {
			at = append(at, e.At)
		}
	}
	return at
}

// fifo returns a new FIFO for a script to open with exec 3>. The script opens it when the test does. A process that ends closes
// it only when its exit status is certain.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	return name
}

func TestPanickedContenderIsAProblemEvenIfKilledAfterwards(t *testing.T) {
	status := fifo(t)
	for script, over := range map[string]func(*contender){
		"echo panic: boom >&2; exit 2": func(c *contender) { <-c.current().ended },
		// The process is dead, and the harness has not noticed: a child has the same output open.
		"sleep 2 & exec 3>" + status + "; echo panic: boom >&2; exit 2": func(*contender) {
			_, err := os.ReadFile(status)
			require.NoError(t, err)
		},
	} {
		c := scripted(t, script)
		over(c)
		c.kill()
		ended := c.run.time.Now()
		require.Len(t, c.run.result.Problems, 1, script)
		require.Contains(t, c.run.result.Problems[0], "c1.1 ended unexpectedly at ")
		require.Contains(t, c.run.result.Problems[0], "exit status 2; its output:\n\tpanic: boom")
		died := crashes(&c.run.recorder)
		require.Len(t, died, 1, "one crash is recorded")
		require.LessOrEqual(t, died[0], ended)
	}
}

func TestUnexpectedEndIsAProblemInEveryProcess(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":      "with status 0",
		"kill -9 $$":  "signal: killed",
		"kill -15 $$": "signal: terminated",
	} {
		c := scripted(t, script)
		first := c.current()
		<-first.ended
		require.NoError(t, c.start(), "as kill-contender does")
		<-c.current().ended
		require.Len(t, c.run.result.Problems, 2, script)
		require.Contains(t, c.run.result.Problems[0], "c1.1 ended unexpectedly")
		require.Contains(t, c.run.result.Problems[1], "c1.2 ended unexpectedly")
		require.Contains(t, c.run.result.Problems[0], want)
		require.Len(t, crashes(&c.run.recorder), 2)
	}
}

func TestKilledContenderCrashesBeforeTheKillAndAfterItsLastEvent(t *testing.T) {
	silent := scripted(t, "exec sleep 60")
	before := silent.run.time.Now()
	silent.kill()
	died := crashes(&silent.run.recorder)
	require.Len(t, died, 1)
	require.GreaterOrEqual(t, died[0], before)
	require.Empty(t, silent.run.result.Problems, "the harness killed it")

	// The harness notices the end only when the child ends that has the same output open: a child that reads the input.
	name := fifo(t)
	slow := scripted(t, "exec 3<&0; cat <&3 & exec 3>"+name+"; exec sleep 60")
	running, err := os.Open(name) // the child has started
	require.NoError(t, err)
	before = slow.run.time.Now()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		slow.kill()
	}()
	_, err = io.ReadAll(running)
	require.NoError(t, err)
	require.NoError(t, running.Close())
	exited := slow.run.time.Now()
	require.NoError(t, slow.current().in.Close())
	<-killed
	died = crashes(&slow.run.recorder)
	require.Len(t, died, 1)
	require.GreaterOrEqual(t, died[0], before)
	require.LessOrEqual(t, died[0], exited, "from the kill on, the process is excused")

	reports := scripted(t, `echo '{"at":"1h","kind":"asked","contender":"c1.1","attempt":1,"path":"/l"}'; exec sleep 60`)
	for reports.run.recorder.outstanding("c1.1") == silent.run.recorder.outstanding("c1.1") {
		clock.Sleep(time.Millisecond)
	}
	reports.kill()
	require.Equal(t, []history.Instant{history.Instant(time.Hour)}, crashes(&reports.run.recorder))
	require.Empty(t, reports.run.result.Problems)
}

func TestContenderThatStopsOnRequestIsNoProblem(t *testing.T) {
	c := scripted(t, "read word")
	c.send(worker.Stop)
	c.stop(t.Context(), time.Minute)
	require.Empty(t, c.run.result.Problems)
	require.Empty(t, crashes(&c.run.recorder))

	c = scripted(t, "read word; exit 66")
	c.send(worker.Stop)
	c.stop(t.Context(), time.Minute)
	require.Len(t, c.run.result.Problems, 1)
	require.Contains(t, c.run.result.Problems[0], "exit status 66")
}

// stopping is a script that reports Stopped after Stop, and that it closes a session after Close.
const stopping = `read word; echo '{"at":"1ms","kind":"stopped","contender":"c1.1"}'
read word; echo '{"at":"2ms","kind":"closing","contender":"c1.1","session":"0x1"}'`

func TestStoppedContenderLivesUntilItIsClosed(t *testing.T) {
	c := scripted(t, stopping)
	c.send(worker.Stop)
	c.stop(t.Context(), time.Minute)
	select {
	case <-c.current().ended:
		t.Fatal("it has ended")
	case <-time.After(50 * time.Millisecond):
	}
	c.close(t.Context(), time.Minute)
	<-c.current().ended
	require.Empty(t, c.run.result.Problems)
	require.Empty(t, crashes(&c.run.recorder))
}

func TestContenderThatDoesNotCloseIsReported(t *testing.T) {
	c := scripted(t, stopping+"; exec sleep 60")
	c.send(worker.Stop)
	c.stop(t.Context(), time.Minute)
	c.close(t.Context(), 10*time.Millisecond)
	require.Equal(t, []string{"close c1.1: it has not ended after 10ms"}, c.run.result.Problems)
	require.Len(t, crashes(&c.run.recorder), 1, "it was killed")
}

func TestContendersCloseTheirSessionsAfterEnd(t *testing.T) {
	s := scripted(t, `case $LOCKKEEPER_TORTURE_WORKER in *'"probe":true'*) exit;; esac; `+stopping).run
	s.opts.Log = t.Logf
	s.opts.Rival = &Rival{}
	s.servers = laggingServers{}
	require.NoError(t, s.execute(t.Context()))
	at := func(kind history.Kind) int {
		return slices.IndexFunc(s.recorder.events, func(e history.Event) bool { return e.Kind == kind })
	}
	require.GreaterOrEqual(t, at(history.Stopped), 0)
	require.Less(t, at(history.Stopped), at(history.End))
	require.Less(t, at(history.End), at(history.Closing))
}

func TestStarvedContenderIsReported(t *testing.T) {
	c := scripted(t, `read word; echo '{"at":"7s","kind":"asked","contender":"c1.1","attempt":1,"path":"/l"}'; exec sleep 60`)
	c.send(worker.Stop)
	for c.run.recorder.outstanding("c1.1") == new(recorder).outstanding("c1.1") {
		clock.Sleep(time.Millisecond)
	}
	c.stop(t.Context(), 10*time.Millisecond)
	require.Equal(t, []string{
		"stop c1.1: it has not stopped after 10ms: it was not granted /l after all faults were healed, requested at 7s",
	}, c.run.result.Problems)
	require.Len(t, crashes(&c.run.recorder), 1, "it was killed")
}

func TestInterruptedStopReturnsImmediately(t *testing.T) {
	c := scripted(t, "exec sleep 60")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.stop(ctx, time.Hour)
	require.Empty(t, c.run.result.Problems)
	require.Empty(t, crashes(&c.run.recorder), "cleanUp ends the contender")
}

func TestInvalidContenderOutputIsAProblem(t *testing.T) {
	for printed, want := range map[string]string{
		`echo hello`: `read events of c1.1: "hello"`,
		`echo '{"at":"1s","kind":"paused","contender":"c2.1"}'`:                            "the event names another contender",
		`echo '{"at":"1s","kind":"note","contender":"c1.1","text":"no connection"}'`:       "c1.1 reported at 1s: no connection",
		`head -c 2000000 /dev/zero; echo; echo '{"kind":"told","contender":"c1.1"}'; true`: "read events of c1.1: bufio.Scanner: token too long",
	} {
		c := scripted(t, printed+"; read word")
		c.send(worker.Stop)
		<-c.current().ended
		require.Len(t, c.run.result.Problems, 1, printed)
		require.Contains(t, c.run.result.Problems[0], want)
	}
}

func TestOutputTailKeepsTheEnd(t *testing.T) {
	var w outputTail
	require.Empty(t, w.excerpt())
	for range 10_000 {
		_, err := w.Write([]byte("line\n"))
		require.NoError(t, err)
	}
	_, err := w.Write([]byte("the end\n"))
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(w.excerpt(), "\n\tline\n\tthe end"))
	require.Equal(t, excerptLines, strings.Count(w.excerpt(), "\n\t"))
	require.LessOrEqual(t, len(w.text), keptBytes)
}

func TestOutstandingOperationsAreDescribed(t *testing.T) {
	var j recorder
	record := func(attempt int, path string, kind history.Kind) {
		j.add(history.Event{At: history.Instant(attempt) * history.Instant(time.Second), Kind: kind, Contender: "c1.1", Attempt: attempt, Path: path, Error: "why"})
	}
	j.add(history.Event{Kind: history.Asked, Contender: "c2.1", Attempt: 9, Path: "/other"})
	for _, kind := range []history.Kind{history.Asked, history.Granted, history.Releasing, history.Released} {
		record(1, "/released", kind)
	}
	require.Contains(t, j.outstanding("c1.1"), "none of its attempts has failed")
	record(2, "/failed", history.Asked)
	record(2, "/failed", history.Failed)
	require.Contains(t, j.outstanding("c1.1"), `its last failure was "why" at 2s`)
	record(5, "/waited-for", history.Asked)
	record(4, "/held", history.Asked)
	record(4, "/held", history.Granted)
	record(3, "/kept", history.Asked)
	record(3, "/kept", history.Granted)
	record(3, "/kept", history.Releasing)
	require.Equal(t, "it has not finished the release of /kept, begun at 3s; it has not begun to release /held, granted at 4s; "+
		"it was not granted /waited-for after all faults were healed, requested at 5s", j.outstanding("c1.1"))
}

// lagging is a server that does not serve again.
type lagging struct{ Server }

func (lagging) Addr() string { return "127.0.0.1:1" }
func (lagging) Log(ctx context.Context) string {
	if _, bounded := ctx.Deadline(); !bounded {
		return "asked without a bound"
	}
	return "asked with a bound"
}

type laggingServers struct{}

var errLags = errors.New("server 1 lags")

func (laggingServers) About() string                          { return "lagging" }
func (laggingServers) All() []Server                          { return []Server{lagging{}} }
func (laggingServers) Leader(context.Context) (Server, error) { return lagging{}, nil }
func (laggingServers) WaitServing(context.Context) error      { return errLags }
func (laggingServers) Close() error                           { return nil }

func TestFailureAfterTheContentionKeepsTheHistory(t *testing.T) {
	var logged outputTail
	s := scripted(t, `case $LOCKKEEPER_TORTURE_WORKER in *'"probe":true'*) ;; *) read word;; esac`).run
	s.opts.Log = func(format string, args ...any) { _, _ = fmt.Fprintf(&logged, format+"\n", args...) }
	s.opts.Rival = &Rival{}
	s.result = newResult(s.opts)
	s.servers = laggingServers{}
	s.recorder.add(history.Event{Kind: history.Run, Timeout: history.Instant(4 * time.Second), Tick: history.Instant(500 * time.Millisecond)})
	require.NoError(t, s.execute(t.Context()))
	s.judge()
	require.Equal(t, verdict.Unsound, s.result.Verdict)
	require.Contains(t, s.result.Failures, "wait for the servers after the last fault: server 1 lags")
	require.Contains(t, string(logged.text), "server 1:\nasked with a bound")
	require.Equal(t, history.End, s.result.History[len(s.result.History)-1].Kind)

	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errLags)
	require.ErrorIs(t, s.execute(ctx), errLags, "an interrupted run has no result")
}

// The shell's loop replaces the clock thread: it wakes ten times a second, and reports its pause when it continues.
func TestResumeWaitsUntilTheContenderHasReportedItsPause(t *testing.T) {
	const reporting = `trap 'sleep 1; echo "{\"at\":\"2ms\",\"kind\":\"woke\",\"contender\":\"c1.1\"}"' CONT
echo '{"at":"1ms","kind":"asked","contender":"c1.1","attempt":1,"path":"/x"}'
while :; do sleep 0.1; done`
	woke := func(c *contender) bool {
		return slices.ContainsFunc(c.run.recorder.history(), func(e history.Event) bool { return e.Kind == history.Woke })
	}
	c := scripted(t, reporting)
	require.Eventually(t, c.current().reported.Load, time.Minute, time.Millisecond)
	require.NoError(t, c.suspend())
	require.NoError(t, c.resume(t.Context()))
	require.True(t, woke(c), "a kill after this does not hide the pause")
	c.kill()

	// A process that was stopped before it reported anything has nothing to report.
	silent := scripted(t, "exec sleep 60")
	require.NoError(t, silent.suspend())
	require.NoError(t, silent.resume(t.Context()))

	dumb := scripted(t, `echo '{"at":"1ms","kind":"asked","contender":"c1.1","attempt":1,"path":"/x"}'; exec sleep 60`)
	require.Eventually(t, dumb.current().reported.Load, time.Minute, time.Millisecond)
	require.NoError(t, dumb.suspend())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, dumb.resume(ctx), "resume c1.1: it has not reported that it was stopped")
}
