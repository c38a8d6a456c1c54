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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// A contender is a worker process, together with the processes that replace it after it was killed. They share its links.
type contender struct {
	run     *run
	number  int
	clients int
	waiters int // additional contenders, on each path
	holds   int // additional uncontended locks
	probes  bool
	caller  bool            // it uses the lock service
	proxies []*docker.Proxy // to each server, or to each replica of the lock service

	mu      sync.Mutex // guards what follows
	process *process
	started int            // number of processes that were started
	spoiled *history.Event // of the links, nil if they are not
}

// A process is one worker process.
type process struct {
	name      string
	cmd       *exec.Cmd
	in        io.WriteCloser
	stopped   chan struct{}   // closed when it has reported Stopped
	ended     chan struct{}   // closed when it has ended and its output was read
	lastEvent history.Instant // latest event that it reported; valid after ended
	output    outputTail      // on its standard error

	reported atomic.Bool   // it has reported an event
	resumed  chan struct{} // signals that it has reported Woke

	mu       sync.Mutex          // guards what follows
	mayEnd   bool                // it was requested to stop, or ends by itself
	killed   *history.Instant    // when the harness killed it, or a moment before; nil if it did not
	sessions map[history.ID]bool // reported with its grants
}

func (c *contender) processTarget() string { return fmt.Sprint("contender ", c.number) }

func (c *contender) linksTarget() string { return fmt.Sprint("links of contender ", c.number) }

func (c *contender) healLinks() {
	for _, p := range c.proxies {
		p.Heal()
	}
}

// connect creates the links of a contender.
func (c *contender) connect() error {
	var targets []string
	for _, server := range c.run.servers.All() {
		targets = append(targets, server.Addr())
	}
	if c.caller {
		targets = nil
		for _, p := range c.run.replicas {
			targets = append(targets, p.front.Addr())
		}
	}
	for _, target := range targets {
		p, err := docker.NewProxy(target)
		if err != nil {
			return err
		}
		c.proxies = append(c.proxies, p)
	}
	return nil
}

// spoil records that the links are spoiled, for the current process and those that replace it. It returns the function that
// records that they are healed.
func (c *contender) spoil(e history.Event) (healed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spoiled = &e
	c.noteLinks(e)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spoiled = nil
		c.noteLinks(history.Event{Kind: history.Healed})
	}
}

// noteLinks records an event of the links of the last process that was started. Its caller has locked mu.
func (c *contender) noteLinks(e history.Event) {
	e.At, e.Contender = c.run.time.Now(), c.processName()
	c.run.recorder.add(e)
}

func (c *contender) processName() string { return fmt.Sprintf("c%d.%d", c.number, c.started) }

// addresses returns where a worker process finds the servers or, if it is a caller of the lock service, the replicas.
func (c *contender) addresses() (servers, service []string) {
	for _, proxy := range c.proxies {
		if c.caller {
			service = append(service, "http://"+proxy.Addr())
		} else {
			servers = append(servers, proxy.Addr())
		}
	}
	return servers, service
}

// million is how many attempts a process may number.
const million = 1_000_000

// start starts the next process.
func (c *contender) start() error {
	r := c.run
	c.mu.Lock()
	c.started++
	p := &process{
		name: c.processName(), stopped: make(chan struct{}), ended: make(chan struct{}), resumed: make(chan struct{}, 1), mayEnd: c.probes,
	}
	if c.spoiled != nil {
		c.noteLinks(*c.spoiled)
	}
	c.mu.Unlock()
	servers, service := c.addresses()
	processes := int(r.processes.Add(1))
	task := worker.Spec{
		Name: p.name, Servers: servers, Service: service, Bearer: bearer, Paths: r.opts.paths(), Timeout: history.Instant(r.opts.Timeout), Began: r.time.Began,
		First: processes*million + 1, Clients: c.clients, Register: r.registers.Addr(), Seed: r.opts.Seed*1000 + uint64(processes), Harness: os.Getpid(),
		Tokenless: r.opts.tokenless(), Probe: c.probes, Waiters: c.waiters, Holds: c.holds, HoldsAt: holdsAt(c.number),
	}
	if !c.caller { // the service has locks and elections only
		r.opts.addRecipes(&task)
	}
	spec, err := json.Marshal(task)
	if err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	p.cmd = exec.Command(r.opts.Contender[0], r.opts.Contender[1:]...)
	p.cmd.Env = append(os.Environ(), worker.SpecVariable+"="+string(spec))
	p.cmd.Stderr = io.MultiWriter(os.Stderr, &p.output)
	p.cmd.WaitDelay = 10 * time.Second // its children may have its standard error open, too
	// In its own process group: an interrupt of the harness at a terminal must not reach the contenders.
	p.cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	if err := r.launch(p.cmd, func() {
		c.readEvents(p, out)
		at := r.time.Now()
		c.processEnded(p, at, p.cmd.Wait())
		close(p.ended)
	}); err != nil {
		return fmt.Errorf("contender %v: %w", r.opts.Contender, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = p
	return nil
}

// readEvents records the events that a process reports, until it has ended.
func (c *contender) readEvents(p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	var once sync.Once // for a program that reports Stopped again
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
			p.addSession(e.Session)
		}
		switch e.Kind {
		case history.Woke:
			select {
			case p.resumed <- struct{}{}:
			default:
			}
		case history.Stopped:
			once.Do(func() { close(p.stopped) })
		default:
		}
	}
	if err := lines.Err(); err != nil {
		c.run.problemf("read events of %s: %v", p.name, err)
		_, _ = io.Copy(io.Discard, out) // otherwise it would block for ever in a write
	}
}

// processEnded records the end of a process; at is when its output ended. An end that is neither the harness's SIGKILL nor the
// requested stop is a problem, even if the harness was about to kill the process: a process that has panicked was not killed.
// The checker excuses dead processes, so that only this problem reports the panic.
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

// kill kills the current process with SIGKILL and waits for its end. The recorded instant is taken before the signal: the
// checker excuses the process from that instant on, and not only from when the harness notices its end.
func (c *contender) kill() {
	p := c.current()
	if p == nil {
		return // it never began
	}
	p.mu.Lock()
	at := c.run.time.Now()
	p.killed = &at
	p.mu.Unlock()
	_ = p.cmd.Process.Kill() // it may have ended unexpectedly, which processEnded finds out
	<-p.ended
}

func (c *contender) suspend() error { return c.current().cmd.Process.Signal(syscall.SIGSTOP) }

// resume continues the current process, and waits until the process has reported its pause: a process that is killed before
// its clock thread has run cannot report it, and only reported pauses excuse a holder. resume does not wait for a process that
// had not reported anything before the pause, because that process had not requested anything either.
func (c *contender) resume(ctx context.Context) error {
	p := c.current()
	begun := p.reported.Load()
	select {
	case <-p.resumed: // from an earlier pause
	default:
	}
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if !begun {
		return nil
	}
	select {
	case <-p.resumed:
	case <-p.ended:
	case <-ctx.Done():
		return fmt.Errorf("resume %s: it has not reported that it was stopped: %w", p.name, context.Cause(ctx))
	}
	return nil
}

// send sends a command to the current process. It ignores errors: a process that has ended needs no command.
func (c *contender) send(command string) {
	p := c.current()
	if command == worker.Stop {
		p.mu.Lock()
		p.mayEnd = true
		p.mu.Unlock()
	}
	_, _ = fmt.Fprintln(p.in, command)
}

// stop waits until the current process has stopped after worker.Stop, or has ended. After the bound, stop kills it and records a
// problem: all faults are healed, so every waiter should have been granted its lock. When ctx ends, stop returns; cleanUp ends the
// process.
func (c *contender) stop(ctx context.Context, bound time.Duration) {
	p := c.current()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-p.stopped:
	case <-p.ended:
	case <-ctx.Done():
	case <-timer.C:
		c.run.problemf("stop %s: it has not stopped after %v: %s", p.name, bound, c.run.recorder.outstanding(p.name))
		c.kill()
	}
}

// close has the current process close its clients, and waits until it has ended, as stop does.
func (c *contender) close(ctx context.Context, bound time.Duration) {
	p := c.current()
	c.send(worker.Close)
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-p.ended:
	case <-ctx.Done():
	case <-timer.C:
		c.run.problemf("close %s: it has not ended after %v", p.name, bound)
		c.kill()
	}
}

// holdsAt returns the parent of the uncontended locks of one contender. Processes that replace a killed one use the same.
func holdsAt(contender int) string { return fmt.Sprintf("%s/%d", verdict.Holds, contender) }
