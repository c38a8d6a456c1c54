// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Process is a child process. It is safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *output
	ended  chan struct{} // closed after the process has ended and err is set
	err    error
}

// Start is [Launch] for a test, whose end kills the process. If the test has failed, the output is logged.
func Start(tb testing.TB, cmd *exec.Cmd) (*Process, error) {
	tb.Helper()
	p, err := Launch(cmd)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() {
		p.Kill()
		if tb.Failed() {
			tb.Logf("%q printed:\n%s", cmd.Args, p.Output())
		}
	})
	return p, nil
}

// Launch starts a command of [exec.CommandContext], whose standard output and standard error are read as lines, as far as cmd
// does not set them. The end of its ctx kills the process, with the processes that it has started. The caller waits for the
// end of the process, or kills it.
func Launch(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, output: &output{grown: make(chan struct{})}, ended: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.output
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.output
	}
	if cmd.WaitDelay == 0 {
		cmd.WaitDelay = 10 * time.Second // a process that outlives cmd may keep its output open
	}
	group(cmd)
	var err error
	if p.input, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", cmd.Args, err)
	}
	go func() { // Wait and Kill wait for it
		defer close(p.ended)
		p.err = cmd.Wait()
		p.output.close()
	}()
	return p, nil
}

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Send writes a line to the standard input.
func (p *Process) Send(line string) error {
	if _, err := io.WriteString(p.input, line+"\n"); err != nil {
		return fmt.Errorf("send %q to process %d: %w", line, p.Pid(), err)
	}
	return nil
}

// CloseInput ends the standard input.
func (p *Process) CloseInput() error { return p.input.Close() }

// Await waits for a line that begins with one of the prefixes, or for any line if there is no prefix. It returns the first
// one that was not returned before; the lines ahead of it remain. It fails when ctx ends or the process has ended.
func (p *Process) Await(ctx context.Context, prefixes ...string) (string, error) {
	for {
		line, found, grown := p.output.take(prefixes)
		switch {
		case found:
			return line, nil
		case grown == nil:
			<-p.ended
			return "", fmt.Errorf("process %d has ended before it printed one of %q: %w", p.Pid(), prefixes, errors.Join(p.err, io.EOF))
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return "", fmt.Errorf("process %d has not printed one of %q: %w", p.Pid(), prefixes, context.Cause(ctx))
		}
	}
}

// Poll is Await without waiting. It reports whether there is such a line.
func (p *Process) Poll(prefixes ...string) (line string, found bool) {
	line, found, _ = p.output.take(prefixes)
	return line, found
}

// Output returns all that the process has printed.
func (p *Process) Output() string {
	p.output.mu.Lock()
	defer p.output.mu.Unlock()
	return string(p.output.text)
}

// Signal sends a signal to the process.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Wait waits until the process has ended. It returns the error of [exec.Cmd.Wait].
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Kill kills the process, which may be stopped, and waits until it has ended.
func (p *Process) Kill() {
	select {
	case <-p.ended:
	default:
		_ = p.cmd.Cancel() // it may have ended meanwhile
		<-p.ended
	}
}

// An output collects what a process prints. It is an [io.Writer] that never fails.
type output struct {
	mu    sync.Mutex    // guards what follows
	grown chan struct{} // closed and replaced with each line; nil after the end
	text  []byte
	lines []string // those that were not taken yet
	read  int      // how much of text is in complete lines
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text = append(o.text, b...)
	for {
		line, _, complete := bytes.Cut(o.text[o.read:], []byte("\n"))
		if !complete {
			break
		}
		o.add(line)
		o.read++
	}
	close(o.grown)
	o.grown = make(chan struct{})
	return len(b), nil
}

func (o *output) add(line []byte) {
	o.read += len(line)
	o.lines = append(o.lines, strings.TrimSuffix(string(line), "\r"))
}

// close ends the output, whose last line may be incomplete.
func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if rest := o.text[o.read:]; len(rest) > 0 {
		o.add(rest)
	}
	close(o.grown)
	o.grown = nil
}

// take removes and returns the first line with one of the prefixes. If there is none, grown is closed at the next line.
func (o *output) take(prefixes []string) (line string, found bool, grown <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, line := range o.lines {
		if len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(line, p) }) {
			o.lines = slices.Delete(o.lines, i, i+1)
			return line, true, nil
		}
	}
	return "", false, o.grown
}
