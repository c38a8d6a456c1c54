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

// A contender is a process that contends, and those that take its place after it was killed: they have its links.
type contender struct {
	run     *run
	number  int
	clients int
	waiters int // further contenders, on each path
	holds   int // further locks
	probes  bool
	proxies []*docker.Proxy // to each server

	mu      sync.Mutex // guards what follows
	process *process
	past    int // processes that were begun
}

// A process is one process.
type process struct {
	name      string
	cmd       *exec.Cmd
	in        io.WriteCloser
	ended     chan struct{}   // closed when it has ended, and all that it said was heard
	lastEvent history.Instant // of the latest event that it told; valid after ended
	output    outputTail      // on its standard error

	reported atomic.Bool   // it has told something
	resumed  chan struct{} // has a word after it has told that it woke

	mu       sync.Mutex          // guards what follows
	mayEnd   bool                // to stop, or to end by itself
	killed   *history.Instant    // when we killed it, or a moment before; nil if we did not
	sessions map[history.ID]bool // that its grants told of
}

func (c *contender) processTarget() string { return fmt.Sprint("contender ", c.number) }
func (c *contender) linksTarget() string   { return fmt.Sprint("links of contender ", c.number) }

func (c *contender) healLinks() {
	for _, p := range c.proxies {
		p.Pass()
	}
}

// million is how many attempts a life may number.
const million = 1_000_000

// start begins the next life.
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
	l.cmd.WaitDelay = 10 * time.Second // whatever it has started may have its standard error, too
	// In a group of its own: what interrupts the harness at a terminal is not for the contenders.
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
		// The kernel takes the end of the starting thread for the parent's death.
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

// readEvents takes down what a life says, until it has ended.
func (c *contender) readEvents(p *process, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e history.Event
		err := json.Unmarshal(lines.Bytes(), &e)
		if err == nil && e.Contender != p.name {
			err = errors.New("it has another name")
		}
		if err != nil {
			c.run.problemf("%s said %q: %v", p.name, lines.Text(), err)
			continue
		}
		p.reported.Store(true)
		p.lastEvent = max(p.lastEvent, e.At)
		if e.Kind == history.Note { // of its own accord it has nothing to tell that is fine
			c.run.problemf("%s said at %v: %s", p.name, e.At, e.Text)
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
		c.run.problemf("%s is not heard any more: %v", p.name, err)
		_, _ = io.Copy(io.Discard, out) // it would wait for ever for somebody to read
	}
}

// processEnded tells of the end of a life: at is when nothing was left to be heard of it. An end that is neither our own SIGKILL
// nor what it was told to come to is amiss, also where we were about to kill it: a process that has panicked has not been
// killed, and whatever the checker excuses in the dead, the run has found something.
func (c *contender) processEnded(p *process, at history.Instant, err error) {
	p.mu.Lock()
	mayEnd, killed := p.mayEnd, p.killed
	p.mu.Unlock()
	switch {
	case killed != nil && isKill(err):
		// It was alive when it said something.
		at = max(*killed, p.lastEvent)
	case mayEnd && err == nil:
		return
	case err == nil:
		c.run.problemf("%s ended by itself at %v, with status 0%s", p.name, at, p.output.excerpt())
	default:
		c.run.problemf("%s ended by itself at %v: %v%s", p.name, at, err, p.output.excerpt())
	}
	c.run.recorder.add(history.Event{At: at, Kind: history.Crashed, Contender: p.name})
}

// isKill says whether that is how a process ends by kill -9.
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

// kill ends the current life as kill -9 does. The instant is taken before: the checker excuses the dead from it on, and
// whatever was due between the kill and the moment at which we hear of it was due from a dead one.
func (c *contender) kill() {
	l := c.current()
	if l == nil {
		return // it never began
	}
	l.mu.Lock()
	at := c.run.time.Now()
	l.killed = &at
	l.mu.Unlock()
	_ = l.cmd.Process.Kill() // it may have ended by itself, which buried finds out
	<-l.ended
}

func (c *contender) suspend() error { return c.current().cmd.Process.Signal(syscall.SIGSTOP) }

// resume has it go on, and waits until it has told that it was stopped. Only its own word counts for that, and whoever is killed
// before its clock thread has had its turn cannot give it. One that was stopped before it had begun to look at the clock has
// nothing to tell, nor had it asked for anything.
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
		return fmt.Errorf("%s has not said that it was stopped: %w", l.name, context.Cause(ctx))
	}
	return nil
}

// tell says a word to the current life. One that has ended does not hear it, nor need it.
func (c *contender) tell(command string) {
	l := c.current()
	if command == worker.Stop {
		l.mu.Lock()
		l.mayEnd = true
		l.mu.Unlock()
	}
	_, _ = fmt.Fprintln(l.in, command)
}

// stop waits until the current life has ended as it was told to. After the bound it is killed, and that is amiss: everything
// is healed, so whoever waits is granted what it waits for. When ctx ends, nobody waits any more.
func (c *contender) stop(ctx context.Context, bound time.Duration) {
	l := c.current()
	timer := time.NewTimer(bound)
	defer timer.Stop()
	select {
	case <-l.ended:
	case <-ctx.Done(): // cleanUp ends it
	case <-timer.C:
		c.run.problemf("%s has not ended %v after it was told to: %s", l.name, bound, c.run.recorder.outstanding(l.name))
		c.kill()
	}
}

// outputTail keep the end of what a process says.
type outputTail struct {
	mu   sync.Mutex // guards text
	text []byte
}

// What is kept: a panic's own goroutine, as a rule.
const (
	wordsKept = 8 << 10 // bytes
	linesTold = 40
)

// Write never fails: it would end what the process says to others.
func (w *outputTail) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, b...)
	w.text = w.text[max(0, len(w.text)-wordsKept):]
	return len(b), nil
}

// excerpt is the end of it as it stands behind a sentence, "" if nothing was said.
func (w *outputTail) excerpt() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := strings.TrimSpace(string(w.text))
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return "; it said:\n\t" + strings.Join(lines[max(0, len(lines)-linesTold):], "\n\t")
}
