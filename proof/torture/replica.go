// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
)

// A replica is one replica of the lock service, together with the processes that replace it after it was killed. They have the
// same address and links.
type replica struct {
	run     *run
	number  int
	proxies []*docker.Proxy // to each server
	front   *docker.Proxy   // which callers reach it through
	address string          // that it listens on, host:port

	mu      sync.Mutex // guards process
	process *replicaProcess
}

// A replicaProcess is one process of a replica.
type replicaProcess struct {
	cmd    *exec.Cmd
	url    chan string   // receives the URL once it serves
	ended  chan struct{} // closed when it has ended
	output outputTail    // its log

	mu     sync.Mutex // guards what follows
	mayEnd bool       // the harness ends it
}

func (p *replica) processTarget() string { return fmt.Sprint("replica ", p.number) }
func (p *replica) linksTarget() string   { return fmt.Sprint("links of replica ", p.number) }
func (p *replica) callersTarget() string { return fmt.Sprint("callers of replica ", p.number) }

// servingReplica bounds the start of a replica while nothing is broken.
const servingReplica = 30 * time.Second

// startReplicas starts the replicas of the lock service, and waits until they serve.
func (r *run) startReplicas(ctx context.Context) (err error) {
	if r.opts.Replicas == 0 {
		return nil
	}
	if r.credentials, err = newCredentials(); err != nil {
		return err
	}
	for i := range r.opts.Replicas {
		p := &replica{run: r, number: i + 1, address: "127.0.0.1:0"}
		r.replicas = append(r.replicas, p)
		for _, server := range r.servers.All() {
			proxy, err := docker.NewProxy(server.Addr())
			if err != nil {
				return err
			}
			p.proxies = append(p.proxies, proxy)
		}
		if err := p.start(); err != nil {
			return err
		}
	}
	for _, p := range r.replicas {
		if err := p.awaitServing(ctx); err != nil {
			return err
		}
	}
	r.opts.Log("%d replicas started", len(r.replicas))
	return nil
}

// awaitServing waits until the first process of a replica serves, and has callers reach it. Its later processes listen on the same
// port.
func (p *replica) awaitServing(ctx context.Context) (err error) {
	process := p.current()
	select {
	case text := <-process.url:
		u, err := url.Parse(text)
		if err != nil {
			return fmt.Errorf("replica %d: %w", p.number, err)
		}
		p.address = u.Host
	case <-process.ended:
		return fmt.Errorf("replica %d has ended before it served%s", p.number, process.output.excerpt())
	case <-time.After(servingReplica):
		return fmt.Errorf("replica %d does not serve after %v%s", p.number, servingReplica, process.output.excerpt())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	p.front, err = docker.NewProxy(p.address)
	return err
}

// start starts the next process. It does not wait until that serves, which takes a quorum.
func (p *replica) start() error {
	r := p.run
	servers := make([]string, len(p.proxies))
	for i, proxy := range p.proxies {
		servers[i] = proxy.Addr()
	}
	next := &replicaProcess{url: make(chan string, 1), ended: make(chan struct{})}
	args := append(r.opts.Replica[1:len(r.opts.Replica):len(r.opts.Replica)],
		"--listen", p.address, "--servers", strings.Join(servers, ","), "--root", root, "--session-timeout", r.opts.Timeout.String(),
		"--principals", r.credentials.principals, "--token-keys", r.credentials.keys,
		"--rate", "100000", "--burst", "10000", "--waiters", "10000")
	next.cmd = exec.Command(r.opts.Replica[0], args...)
	next.cmd.WaitDelay = 10 * time.Second
	next.cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true})
	log, closeLog, err := p.openLog(&next.output)
	if err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	next.cmd.Stderr = log
	out, err := next.cmd.StdoutPipe()
	if err != nil {
		return errors.Join(fmt.Errorf("replica: %w", err), closeLog())
	}
	if err := r.launch(next.cmd, func() {
		next.readURL(out)
		p.processEnded(next, errors.Join(next.cmd.Wait(), closeLog()))
		close(next.ended)
	}); err != nil {
		return errors.Join(fmt.Errorf("replica %v: %w", r.opts.Replica, err), closeLog())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process = next
	return nil
}

// openLog returns the destination of a process's log: its end is kept for problems, and all of it beside the servers' logs if
// those are kept.
func (p *replica) openLog(tail *outputTail) (io.Writer, func() error, error) {
	if p.run.opts.Logs == "" {
		return tail, func() error { return nil }, nil
	}
	if err := os.MkdirAll(p.run.opts.Logs, 0o755); err != nil {
		return nil, nil, err
	}
	name := filepath.Join(p.run.opts.Logs, fmt.Sprintf("replica-%d.jsonl", p.number))
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, nil, err
	}
	return io.MultiWriter(file, tail), file.Close, nil
}

// readURL reads the output of a replica until it ends: export LOCKKEEPER_URL=URL once it serves.
func (p *replicaProcess) readURL(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), "export LOCKKEEPER_URL="); found {
			p.url <- text
		}
	}
}

// processEnded reports, as a problem of the run, the end of a process that the harness has not ended, and of one that fails when
// it is stopped in order.
func (p *replica) processEnded(process *replicaProcess, err error) {
	process.mu.Lock()
	defer process.mu.Unlock()
	if process.mayEnd && (err == nil || isKill(err)) {
		return
	}
	p.run.problemf("replica %d ended unexpectedly at %v: %v%s", p.number, p.run.time.Now(), err, process.output.excerpt())
}

func (p *replica) current() *replicaProcess {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

// end sends a signal that ends the current process, and waits for its end.
func (p *replica) end(ctx context.Context, signal syscall.Signal) error {
	process := p.current()
	if process == nil {
		return nil // it never began
	}
	process.mu.Lock()
	process.mayEnd = true
	process.mu.Unlock()
	_ = process.cmd.Process.Signal(signal) // it may have ended unexpectedly, which processEnded reports
	select {
	case <-process.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: it has not ended: %w", p.processTarget(), context.Cause(ctx))
	}
}

// stopReplicas stops the replicas in order. Their own nodes are then gone, too.
func (r *run) stopReplicas(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, servingReplica, fmt.Errorf("%v after SIGTERM", servingReplica))
	defer cancel()
	errs := make([]error, len(r.replicas))
	var stopping sync.WaitGroup
	for i, p := range r.replicas {
		stopping.Go(func() { errs[i] = p.end(ctx, syscall.SIGTERM) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// cleanUp ends the current process and closes the links.
func (p *replica) cleanUp() error {
	err := p.end(context.Background(), syscall.SIGKILL)
	for _, proxy := range append(p.proxies, p.front) {
		if proxy != nil {
			err = errors.Join(err, proxy.Close())
		}
	}
	return err
}
