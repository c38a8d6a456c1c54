// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// A contender is a process that contends, and those that take its place after it was killed: they have its links.
type contender struct {
	stage   *stage
	number  int
	clients int
	visitor bool
	proxies []*docker.Proxy // to each server

	mu   sync.Mutex // guards what follows
	life *life
	past int // lives that were begun
}

// A life is one process.
type life struct {
	name  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended chan struct{} // closed when it has ended, and all that it said was heard
	err   error         // how it ended; valid after ended
}

func (c *contender) body() string  { return fmt.Sprint("contender ", c.number) }
func (c *contender) links() string { return fmt.Sprint("links of contender ", c.number) }

func (c *contender) pass() {
	for _, p := range c.proxies {
		p.Pass()
	}
}

// million is how many attempts a life may number.
const million = 1_000_000

// start begins the next life.
func (c *contender) start() error {
	s := c.stage
	c.mu.Lock()
	c.past++
	l := &life{name: fmt.Sprintf("c%d.%d", c.number, c.past), ended: make(chan struct{})}
	c.mu.Unlock()
	var servers []string
	for _, p := range c.proxies {
		servers = append(servers, p.Addr())
	}
	lives := int(s.lives.Add(1))
	part, err := json.Marshal(Part{
		Name: l.name, Servers: servers, Paths: s.opts.paths(), Timeout: history.Instant(s.opts.Timeout), Began: s.time.began,
		First: lives*million + 1, Clients: c.clients, Register: s.registers.addr(), Seed: s.opts.Seed*1000 + uint64(lives), Harness: os.Getpid(),
		Tokenless: s.opts.tokenless(), Visit: c.visitor,
	})
	if err != nil {
		return fmt.Errorf("contender: %w", err)
	}
	l.cmd = exec.Command(s.opts.Contender[0], s.opts.Contender[1:]...)
	l.cmd.Env = append(os.Environ(), PartVariable+"="+string(part))
	l.cmd.Stderr = os.Stderr
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
	s.living.Go(func() {
		// The kernel takes the end of the starting thread for the parent's death.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := l.cmd.Start()
		started <- err
		if err == nil {
			c.hear(l, out)
			l.err = l.cmd.Wait()
			close(l.ended)
		}
	})
	if err := <-started; err != nil {
		return fmt.Errorf("contender %v: %w", s.opts.Contender, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.life = l
	return nil
}

// hear takes down what a life says, until it has ended.
func (c *contender) hear(l *life, out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e history.Event
		err := json.Unmarshal(lines.Bytes(), &e)
		if err == nil && e.Contender != l.name {
			err = errors.New("it has another name")
		}
		if err != nil {
			c.stage.amiss("%s said %q: %v", l.name, lines.Text(), err)
			continue
		}
		c.stage.journal.add(e)
	}
}

func (c *contender) current() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

// kill ends the current life as kill -9 does.
func (c *contender) kill() {
	l := c.current()
	_ = l.cmd.Process.Kill() // it may have ended by itself, which stop finds out
	<-l.ended
	c.stage.journal.add(history.Event{At: c.stage.time.now(), Kind: history.Crashed, Contender: l.name})
}

func (c *contender) freeze() error { return c.current().cmd.Process.Signal(syscall.SIGSTOP) }
func (c *contender) thaw() error   { return c.current().cmd.Process.Signal(syscall.SIGCONT) }

// tell says a word to the current life. One that has ended does not hear it, nor need it.
func (c *contender) tell(word string) { _, _ = fmt.Fprintln(c.current().in, word) }

// stop waits until the current life has ended as it was told to. After the bound it is killed, and that is amiss.
func (c *contender) stop(bound time.Duration) {
	l := c.current()
	select {
	case <-l.ended:
		if l.err != nil {
			c.stage.amiss("%s ended: %v", l.name, l.err)
		}
	case <-time.After(bound):
		c.stage.amiss("%s has not ended %v after it was told to", l.name, bound)
		c.kill()
	}
}
