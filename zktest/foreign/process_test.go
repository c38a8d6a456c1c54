// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A process is a client in its own process, which ends with its test. Its output is logged if the test fails.
type process struct {
	t     *testing.T
	name  string
	ctx   context.Context // done after maxWait, or at the end of the test
	in    io.WriteCloser
	lines chan string   // its output; closed at the end of that
	ended chan struct{} // closed after the process has ended and err is set
	err   error

	mu      sync.Mutex
	printed []string // guarded by mu
}

// start starts a command. Its standard error is part of its output.
func start(t *testing.T, name string, env []string, command ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), maxWait)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(cmd.Environ(), env...)
	inOneGroup(cmd)
	// Do not wait for the pipes of a child that outlives the process.
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, pipe := io.Pipe()
	cmd.Stdout, cmd.Stderr = pipe, pipe // one writer preserves the order of both
	require.NoError(t, cmd.Start(), "%s: %q", name, command)

	p := &process{
		t: t, name: name, ctx: ctx, in: in,
		lines: make(chan string, 1<<12), // room for output that is not read yet
		ended: make(chan struct{}),
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(out)
	}()
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
		_ = pipe.Close() // an io.Pipe's Close never fails
		<-read
	}()
	t.Cleanup(func() {
		cancel()
		<-p.ended
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, p.output())
		}
	})
	return p
}

// read passes the lines on, and records them. It continues to read when no test receives them, so that the process can
// end.
func (p *process) read(out io.Reader) {
	defer close(p.lines)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		p.mu.Lock()
		p.printed = append(p.printed, lines.Text())
		p.mu.Unlock()
		select {
		case p.lines <- lines.Text():
		case <-p.ctx.Done():
		}
	}
	_, _ = io.Copy(io.Discard, out) // a line may have been too long
}

// output returns the output so far.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.printed, "\n")
}

// send writes a line to the process.
func (p *process) send(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err, "%s: send %q", p.name, line)
}

// until returns the next line that begins with prefix, and drops those before it.
func (p *process) until(prefix string) string {
	p.t.Helper()
	for {
		select {
		case line, more := <-p.lines:
			require.True(p.t, more, "%s: ended before it printed %q", p.name, prefix)
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-p.ctx.Done():
			require.FailNow(p.t, "not printed", "%s: %q: %v", p.name, prefix, context.Cause(p.ctx))
		}
	}
}

// poll is until without waiting: it reports false if no such line has been printed yet.
func (p *process) poll(prefix string) (line string, found bool) {
	p.t.Helper()
	for {
		select {
		case line, more := <-p.lines:
			require.True(p.t, more, "%s: ended before it printed %q", p.name, prefix)
			if strings.HasPrefix(line, prefix) {
				return line, true
			}
		default:
			return "", false
		}
	}
}

// close closes the process's input, which makes it end, and requires that it succeeds.
func (p *process) close() {
	p.t.Helper()
	require.NoError(p.t, p.in.Close(), p.name)
	p.wait()
}

// wait waits for a process that ends by itself, and requires that it succeeds.
func (p *process) wait() {
	p.t.Helper()
	for range p.lines { // recorded in printed
	}
	<-p.ended
	require.NoError(p.t, p.err, "%s", p.name)
}
