// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/child"
)

// maxWait bounds each wait. No test measures it.
const maxWait = 3 * time.Minute

// A Process is a contender process. Its methods fail the test, and so belong to the test's goroutine.
type Process struct {
	t testing.TB
	*child.Process
}

// Start starts a contender, which is killed at the end of the test.
func Start(tb testing.TB, cmd *exec.Cmd) *Process {
	tb.Helper()
	started, err := child.Start(tb, cmd)
	if err != nil {
		tb.Fatal(err)
	}
	return &Process{tb, started}
}

// UseTest makes tb the test that fails from now on: a contender can outlive a subtest.
func (p *Process) UseTest(tb testing.TB) {
	tb.Helper()
	p.t = tb
}

// Send sends a command.
func (p *Process) Send(command string) {
	p.t.Helper()
	p.require(p.Process.Send(command))
}

// Await waits for the first event that begins with one of the words and was not returned before. It returns the event without
// its mark. It fails the test if the contender reports a failure.
func (p *Process) Await(words ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), maxWait)
	defer cancel()
	line, err := p.Process.Await(ctx, marked(words)...)
	p.require(err)
	return p.event(line)
}

// Poll is Await without waiting. It returns "" if there is no such event.
func (p *Process) Poll(words ...string) string {
	p.t.Helper()
	line, found := p.Process.Poll(marked(words)...)
	if !found {
		return ""
	}
	return p.event(line)
}

// Request sends a command and waits for one of the events.
func (p *Process) Request(command string, words ...string) string {
	p.t.Helper()
	p.Send(command)
	return p.Await(words...)
}

// Number waits for an event with a number, a token or a session, and returns the number.
func (p *Process) Number(word string) int64 {
	p.t.Helper()
	n, err := strconv.ParseInt(strings.TrimPrefix(p.Await(word), word+" "), 10, 64)
	p.require(err)
	return n
}

// RequireWaiting requires that the contender has not been granted anything.
func (p *Process) RequireWaiting(why string) {
	p.t.Helper()
	if event := p.Poll("acquired"); event != "" {
		p.t.Fatalf("process %d: %s: want it to wait: %s", p.Pid(), event, why)
	}
}

// Close ends the contender's input, which ends the contender, and requires that it succeeds.
func (p *Process) Close() {
	p.t.Helper()
	p.require(p.CloseInput())
	p.require(p.Wait())
}

// Stop stops the process, and returns once it stands still.
func (p *Process) Stop() {
	p.t.Helper()
	p.require(p.Process.Stop())
}

// Continue lets a stopped process continue.
func (p *Process) Continue() {
	p.t.Helper()
	p.require(p.Process.Continue())
}

func (p *Process) require(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("contender: %v", err)
	}
}

// event returns an event without its mark.
func (p *Process) event(line string) string {
	p.t.Helper()
	event := strings.TrimPrefix(line, Mark)
	if strings.HasPrefix(event, "failed") {
		p.t.Fatalf("contender: process %d reports: %s", p.Pid(), event)
	}
	return event
}

// marked returns what the lines with these events, or with a failure, begin with.
func marked(words []string) (prefixes []string) {
	for _, word := range append(words, "failed") {
		prefixes = append(prefixes, fmt.Sprint(Mark, word))
	}
	return prefixes
}
