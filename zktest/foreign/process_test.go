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

// A process is a client in a process of its own, which ends with its test. What it printed is shown if the test fails.
type process struct {
	t     *testing.T
	name  string
	ctx   context.Context // done when the process has run for too long, or with the test
	in    io.WriteCloser
	lines chan string   // what it prints, line by line; closed at the end of its output
	ended chan struct{} // closed when it is gone, and err set
	err   error

	mu      sync.Mutex
	printed []string // guarded by mu
}

// start runs a command. Its standard error goes where its output does.
func start(t *testing.T, name string, env []string, command ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(cmd.Environ(), env...)
	inOneGroup(cmd)
	// Nobody waits for the pipes of what outlives its parent.
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, toUs := io.Pipe()
	cmd.Stdout, cmd.Stderr = toUs, toUs // one writer: what comes in an order is kept in it
	require.NoError(t, cmd.Start(), "%s: %q", name, command)

	p := &process{
		t: t, name: name, ctx: ctx, in: in,
		lines: make(chan string, 1<<12), // room for who prints while nobody listens
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
		_ = toUs.Close() // an io.Pipe's Close never fails
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

// read hands on the lines, and keeps them. It keeps on reading when nobody listens any more, so that the process ends.
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

// output is all that was printed so far.
func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.printed, "\n")
}

// tell writes a line to the process.
func (p *process) tell(line string) {
	p.t.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	require.NoError(p.t, err, "%s, told %q", p.name, line)
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

// poll is until for who does not wait: it returns false if no such line has been printed yet.
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

// finish closes the process's input, which is what ends it, and requires that it ends well.
func (p *process) finish() {
	p.t.Helper()
	require.NoError(p.t, p.in.Close(), p.name)
	p.wait()
}

// wait waits for a process that ends by itself, and requires that it ends well.
func (p *process) wait() {
	p.t.Helper()
	for range p.lines { // kept in printed
	}
	<-p.ended
	require.NoError(p.t, p.err, "%s", p.name)
}
