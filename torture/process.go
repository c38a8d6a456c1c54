// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// A contender is a worker process, together with the processes that replace it after it was killed. They share its links.
type contender struct {
	run     *run
	number  int
	clients int
	waiters int // additional contenders, on each path
	holds   int // additional uncontended locks
	probes  bool
	proxies []*docker.Proxy // to each server

	mu      sync.Mutex // guards what follows
	process *process
	past    int // processes that were begun
}

// A process is one worker process.
type process struct {
	name      string
	cmd       *exec.Cmd
	in        io.WriteCloser
	ended     chan struct{}   // closed when it has ended and its output was read
	lastEvent history.Instant // latest event that it reported; valid after ended
	output    outputTail      // on its standard error

	reported atomic.Bool   // it has reported an event
	resumed  chan struct{} // signals that it has reported Woke

	mu       sync.Mutex          // guards what follows
	mayEnd   bool                // it was asked to stop, or ends by itself
	killed   *history.Instant    // when the harness killed it, or a moment before; nil if it did not
	sessions map[history.ID]bool // reported with its grants
}

func (c *contender) processTarget() string { return fmt.Sprint("contender ", c.number) }
func (c *contender) linksTarget() string   { return fmt.Sprint("links of contender ", c.number) }

func (c *contender) healLinks() {
	for _, p := range c.proxies {
		p.Heal()
	}
}

// million is how many attempts a process may number.
const million = 1_000_000

// start starts the next process.
func (c *contender) start() error {
	s := c.run
	c.mu.Lock()
	c.past++
	l := &process{name: fmt.Sprintf("c%d.%d", c.number, c.past), ended: make(chan struct{}), resumed: make(chan struct{}, 1), mayEnd: c.probes}
	c.mu.Unlock()
	var servers []string
	for _, p := range c.proxies {
		servers = append(servers, p.Addr())
	}
	processes := int(s.processes.Add(1))
	spec, err := json.Marshal(worker.Spec{
		Name: l.name, Servers: servers, Paths: s.opts.paths(), Timeout: history.Instant(s.opts.Timeout), Began: s.time.Began,
		First: processes*million + 1, Clients: c.clients, Register: s.registers.Addr(), Seed: s.opts.Seed*1000 + uint64(processes), Harness: os.Getpid(),
		Tokenless: s.opts.tokenless(), Visit: c.probes,
		Waiters: c.waiters, Holds: c.holds, HoldsAt: holdsAt(c.number),
	})
	if err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	l.cmd = exec.Command(s.opts.Contender[0], s.opts.Contender[1:]...)
	l.cmd.Env = append(os.Environ(), worker.SpecVariable+"="+string(spec))
	l.cmd.Stderr = io.MultiWriter(os.Stderr, &l.output)
	l.cmd.WaitDelay = 10 * time.Second // its children may have its standard error open, too
	// In its own process group: an interrupt of the harness at a terminal must not reach the contenders.
	l.cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	started := make(chan error)
	s.running.Go(func() {
		// For the kernel, the end of the starting thread is the parent's death.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := l.cmd.Start()
		started <- err
		if err == nil {
			c.readEvents(l, out)
			at := s.time.Now()
			c.processEnded(l, at, l.cmd.Wait())
			close(l.ended)
		}
	})
	if err := <-started; err != nil {
		return fmt.Errorf("contender %v: %w", s.opts.Contender, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = l
	return nil
}

// readEvents records the events that a process reports, until it has ended.
func (c *contender) readEvents(p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e history.Event
		err := json.Unmarshal(lines.Bytes(), &e)
		if err == nil && e.Contender != p.name {
			err = errors.New("the event names another contender")
		}
		if err != nil {
			c.run.problemf("read events of %s: %q: %v", p.name, lines.Text(), err)
			continue
		}
		p.reported.Store(true)
		p.lastEvent = max(p.lastEvent, e.At)
		if e.Kind == history.Note { // a worker reports only failures as notes
			c.run.problemf("%s reported at %v: %s", p.name, e.At, e.Text)
		}
		c.run.recorder.add(e)
		if e.Kind == history.Granted && e.Session != 0 {
			p.hasSession(e.Session)
		}
		if e.Kind == history.Woke {
			select {
			case p.resumed <- struct{}{}:
			default:
			}
		}
	}
	if err := lines.Err(); err != nil {
		c.run.problemf("read events of %s: %v", p.name, err)
		_, _ = io.Copy(io.Discard, out) // otherwise it would block for ever in a write
	}
}

// processEnded records the end of a process; at is when its output ended. An end that is neither the harness's SIGKILL nor the
// requested stop is a problem, also if the harness was about to kill the process: a process that has panicked was not killed,
// and whatever the checker excuses in dead processes, the run has found something.
func (c *contender) processEnded(p *process, at history.Instant, err error) {
	p.mu.Lock()
	mayEnd, killed := p.mayEnd, p.killed
	p.mu.Unlock()
	switch {
	case killed != nil && isKill(err):
		// It was alive when it reported its last event.
		at = max(*killed, p.lastEvent)
	case mayEnd && err == nil:
		return
	case err == nil:
		c.run.problemf("%s ended unexpectedly at %v, with status 0%s", p.name, at, p.output.excerpt())
	default:
		c.run.problemf("%s ended unexpectedly at %v: %v%s", p.name, at, err, p.output.excerpt())
	}
	c.run.recorder.add(history.Event{At: at, Kind: history.Crashed, Contender: p.name})
}

// isKill reports whether a process ended by SIGKILL.
func isKill(err error) bool {
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func (c *contender) current() *process {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process
}

// kill kills the current process with SIGKILL. The recorded instant is taken before: from it on, the checker excuses the
// process, which owed nothing between the kill and the moment at which the harness noticed its end.
func (c *contender) kill() {
	l := c.current()
	if l == nil {
		return // it never began
	}
	l.mu.Lock()
	at := c.run.time.Now()
	l.killed = &at
	l.mu.Unlock()
	_ = l.cmd.Process.Kill() // it may have ended unexpectedly, which processEnded finds out
	<-l.ended
}

func (c *contender) suspend() error { return c.current().cmd.Process.Signal(syscall.SIGSTOP) }

// resume continues the current process, and waits until the process has reported that it was stopped. Only its own report
// counts, and a process that is killed before its clock thread has run cannot report. A process that was stopped before it had
// begun to read the clock has nothing to report, and had not asked for anything.
func (c *contender) resume(ctx context.Context) error {
	l := c.current()
	begun := l.reported.Load()
	select {
	case <-l.resumed: // from an earlier pause
	default:
	}
	if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if !begun {
		return nil
	}
	select {
	case <-l.resumed:
	case <-l.ended:
	case <-ctx.Done():
		return fmt.Errorf("resume %s: it has not reported that it was stopped: %w", l.name, context.Cause(ctx))
	}
	return nil
}

// tell sends a command to the current process. A process that has ended does not need it.
func (c *contender) tell(command string) {
	l := c.current()
	if command == worker.Stop {
		l.mu.Lock()
		l.mayEnd = true
		l.mu.Unlock()
	}
	_, _ = fmt.Fprintln(l.in, command)
}

// stop waits until the current process has ended after worker.Stop. After the bound, stop kills it, which is a problem: all
// faults are healed, so every waiter should have been granted its lock. When ctx ends, stop returns.
func (c *contender) stop(ctx context.Context, bound time.Duration) {
	l := c.current()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-ctx.Done(): // cleanUp ends it
	case <-timer.C:
		c.run.problemf("stop %s: it has not ended after %v: %s", l.name, bound, c.run.recorder.outstanding(l.name))
		c.kill()
	}
}

// An outputTail keeps the end of a process's output.
type outputTail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// The kept part is usually enough for the goroutine that panicked.
const (
	wordsKept = 8 << 10 // bytes
	linesTold = 40
)

// Write never fails: an error would end the copy to the other writers, too.
func (w *outputTail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-wordsKept):]
	return len(b), nil
}

// excerpt returns the kept output as the end of a sentence, "" if there is none.
func (w *outputTail) excerpt() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.text))
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return "; its output:\n\t" + strings.Join(lines[max(0, len(lines)-linesTold):], "\n\t")
}
