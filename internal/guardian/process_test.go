// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guardian

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) {
	Main(nil)
	child.Main()
	os.Exit(m.Run())
}

// timeout is T in these tests, the longest that their servers grant: no test waits for it.
const timeout = 40 * time.Second

// A task is what a parent process does before it obeys its standard input.
type task struct {
	Servers  []string
	Socket   string // of its guardian; "": it starts one
	Sessions int
}

// parentRole has guarded sessions. It obeys commands, a line each.
var parentRole = child.New("parent", func(t task) error {
	ctx := context.Background()
	start := Start
	if t.Socket != "" {
		start = func(ctx context.Context) (*Guard, error) { return Dial(ctx, t.Socket) }
	}
	g, err := start(ctx)
	if err != nil {
		return err
	}
	for range t.Sessions {
		s := Session{Servers: t.Servers, Timeout: timeout}
		if err := s.open(ctx, orTCP(nil), t.Servers[0]); err != nil {
			return err
		}
		if err := g.Protect(ctx, t.Servers, s.ID, s.Password, timeout); err != nil {
			return err
		}
		fmt.Println("session", s.ID)
	}
	fmt.Println("guarded")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if err := obey(ctx, g, lines.Text()); err != nil {
			return err
		}
		fmt.Println("done", lines.Text())
	}
	return nil
})

// obey carries out a command of a test.
func obey(ctx context.Context, g *Guard, command string) error {
	verb, argument, _ := strings.Cut(command, " ")
	switch verb {
	case "die":
		child.Die()
	case "exit":
		os.Exit(7)
	case "panic":
		panic("requested")
	case "exec": // the process remains, with another program
		return syscall.Exec("/bin/sleep", []string{"sleep", "60"}, os.Environ())
	case "guardian":
		pid, err := guardianOf(os.Getpid())
		fmt.Println("pid", pid)
		return err
	case "shut": // and wait for another guardian, or another connection to it
		g.mu.Lock()
		former := g.link
		g.mu.Unlock()
		_ = former.conn.Close() // it is open
		for {
			g.mu.Lock()
			now, changed := g.link, g.changed
			g.mu.Unlock()
			if now != nil && now != former {
				return nil
			}
			<-changed
		}
	case "close":
		return g.Close()
	case "fork": // a process that inherits the socket and outlives this one
		socket, err := g.link.conn.File()
		if err != nil {
			return err
		}
		cmd := exec.Command("sleep", "60")
		cmd.ExtraFiles = []*os.File{socket}
		if err := cmd.Start(); err != nil {
			return err
		}
		fmt.Println("pid", cmd.Process.Pid)
	case "forget":
		var id int64
		if _, err := fmt.Sscan(argument, &id); err != nil {
			return err
		}
		g.Forget(id)
	case "group": // a command whose processes write until they are killed
		if err := g.Group(ctx, Unknown); err != nil {
			return err
		}
		cmd := exec.Command("sh", "-c", argument)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			return err
		}
		return g.Group(ctx, cmd.Process.Pid)
	case "crowd": // of sessions that the guardian does not acknowledge before this process ends
		ended, cancel := context.WithCancel(ctx)
		cancel()
		for range 100 {
			s := Session{Servers: strings.Fields(argument), Timeout: timeout}
			if err := s.open(ctx, orTCP(nil), s.Servers[0]); err != nil {
				return err
			}
			_ = g.Protect(ended, s.Servers, s.ID, s.Password, timeout) // it does not wait
			fmt.Println("session", s.ID)
		}
		sent := make(chan struct{})
		g.link.sends.Post(func() { close(sent) }, background.Unbounded)
		<-sent
	case "unknown":
		return g.Group(ctx, Unknown)
	case "await": // until a guardian has acknowledged every session again
		g.mu.Lock()
		sessions := slices.Collect(maps.Values(g.sessions))
		g.mu.Unlock()
		for _, s := range sessions {
			if err := g.await(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// guardianOf returns the process id of a guardian: the child of this executable.
func guardianOf(parent int) (int, error) {
	entries, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, err
	}
	for _, name := range entries {
		var pid, ppid int
		stat, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		var state string
		_, err = fmt.Sscan(string(stat), &pid)
		if err == nil {
			_, err = fmt.Sscan(rest, &state, &ppid)
		}
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		if err == nil && ppid == parent && strings.Contains(string(environ), marker+"="+descriptor) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("process %d has no guardian", parent)
}

// A closing is the end of a session, as the ensemble has recorded it.
type closing struct {
	session int64
	expired bool
}

// A world is an ensemble with the record of the sessions that have ended.
type world struct {
	*zktest.Ensemble
	t *testing.T

	mu     sync.Mutex // guards what follows
	closed []closing
}

func newWorld(t *testing.T, servers int) *world {
	t.Helper()
	w := &world{t: t}
	w.Ensemble = zktest.Start(t, &zktest.Options{Servers: servers, Tick: 2 * time.Second, OnCommit: func(c zktest.Commit) {
		if c.Op == "closeSession" {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.closed = append(w.closed, closing{c.Session, c.Expired})
		}
	}})
	return w
}

// closings returns the sessions that have ended.
func (w *world) closings() []closing {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.closed)
}

// awaitClosed waits until the sessions have ended, and requires that each was closed by a request.
func (w *world) awaitClosed(sessions ...int64) {
	w.t.Helper()
	for _, id := range sessions {
		require.Eventually(w.t, func() bool {
			return slices.ContainsFunc(w.closings(), func(c closing) bool { return c.session == id })
		}, time.Minute, time.Millisecond, "session 0x%x lives", uint64(id))
		require.Contains(w.t, w.closings(), closing{session: id}, "it has expired")
	}
}

// A guardedProcess is a parent process.
type guardedProcess struct {
	*child.Process
	t        *testing.T
	sessions []int64
}

// start starts a process with guarded sessions.
func (w *world) start(task task) *guardedProcess {
	w.t.Helper()
	if task.Servers == nil {
		task.Servers = w.Addrs()
	}
	p, err := child.Start(w.t, parentRole.Command(w.t.Context(), task))
	require.NoError(w.t, err)
	g := &guardedProcess{Process: p, t: w.t}
	for range task.Sessions {
		g.sessions = append(g.sessions, g.number("session "))
	}
	g.await("guarded")
	return g
}

func (p *guardedProcess) await(prefix string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	line, err := p.Await(ctx, prefix)
	require.NoError(p.t, err)
	return line
}

// number returns the number in the next line with that prefix.
func (p *guardedProcess) number(prefix string) (n int64) {
	p.t.Helper()
	_, err := fmt.Sscan(strings.TrimPrefix(p.await(prefix), prefix), &n)
	require.NoError(p.t, err)
	return n
}

// do has the process carry out a command.
func (p *guardedProcess) do(command string) {
	p.t.Helper()
	require.NoError(p.t, p.Send(command))
	p.await("done " + command)
}

// pid has the process carry out a command that prints the number of a process.
func (p *guardedProcess) pid(command string) int {
	p.t.Helper()
	p.do(command)
	return int(p.number("pid "))
}

// end has the process end by itself.
func (p *guardedProcess) end(command string) {
	p.t.Helper()
	require.NoError(p.t, p.Send(command))
	_ = p.Wait() // however it ends
}

// serve starts a guardian in this process, as a sidecar is in another one, and returns its socket.
func serve(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "guard")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l, nil, func(err error) { t.Log(err) }) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return socket
}
