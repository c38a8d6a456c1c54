// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The longest times that a server may take to start and, once killed, to end.
const (
	startBound = time.Minute
	endBound   = 30 * time.Second
)

// Options for the start of a server; zero fields mean the default.
type Options struct {
	_ struct{}

	// Args are appended to the command line that this package uses, so that they override it.
	Args []string
}

func (o *Options) args() []string {
	if o == nil {
		return nil
	}
	return o.Args
}

// A Server is a running server. All methods are safe for concurrent use, but Close must be the last.
type Server struct {
	// Addr is the address on which it listens, host:port. It does not change.
	Addr string

	name  string
	dir   string   // contains the log and the folder data
	claim *os.File // of dir
	argv  []string
	as    *user
	ready func(ctx context.Context) error // returns nil when the server serves

	faults  sync.Mutex // serializes Kill, Start, Pause and Unpause; guards running
	running *process   // nil before the first start

	closing  sync.Once
	closeErr error
}

// prepared returns a server with a folder and a free port. The caller must set argv and ready.
func prepared(name string) (*Server, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, name: name, as: as}
	if s.dir, s.claim, err = claim("lockkeeper-" + name + "-"); err != nil {
		return nil, err
	}
	if err := errors.Join(s.own(s.dir), s.folder(s.data())); err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir), s.claim.Close())
	}
	return s, nil
}

// freeAddr returns an address of this host that nothing listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// folder creates a folder that the server's user owns.
func (s *Server) folder(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return s.own(path)
}

// own gives a file to the server's user.
func (s *Server) own(path string) error {
	if s.as == nil {
		return nil
	}
	return os.Chown(path, int(s.as.uid), int(s.as.gid))
}

// command runs a command, before the first start, as the server's user. The error contains its output.
func (s *Server) command(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = s.dir, attributes(s.as)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", argv[0], err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr) // a listener returned the address
	return port
}

// Start starts the server again after Kill, with the same data, on the same port. It returns when the server serves. After at
// most a minute it returns an error with the end of the server's log. ctx bounds only the start. Start does nothing if the
// server is running.
func (s *Server) Start(ctx context.Context) error {
	s.faults.Lock()
	defer s.faults.Unlock()
	if s.running != nil && s.running.alive() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startBound, fmt.Errorf("not serving after %v", startBound))
	defer cancel()
	err := s.launch()
	if err == nil {
		err = s.serving(ctx)
	}
	if err != nil {
		return fmt.Errorf("start %s on %s: %w\n%s", s.name, s.Addr, err, s.tail())
	}
	return nil
}

func (s *Server) launch() error {
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	s.running, err = launch(s.argv, s.dir, log, s.as)
	return errors.Join(err, log.Close())
}

// serving waits until the server serves.
func (s *Server) serving(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.running.done:
			return fmt.Errorf("it has ended: %w", errors.Join(s.running.err, os.ErrProcessDone))
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// Kill ends the server's processes with SIGKILL, and returns when they have ended. Start starts the server again.
func (s *Server) Kill(ctx context.Context) error {
	s.faults.Lock()
	defer s.faults.Unlock()
	if s.running == nil {
		return nil
	}
	if err := s.running.kill(ctx); err != nil {
		return fmt.Errorf("kill %s on %s: %w", s.name, s.Addr, err)
	}
	return nil
}

// Pause stops the server's processes, as SIGSTOP does: connections stay open, and nothing is answered.
func (s *Server) Pause() error { return s.signal("pause", syscall.SIGSTOP) }

// Unpause continues a paused server.
func (s *Server) Unpause() error { return s.signal("unpause", syscall.SIGCONT) }

func (s *Server) signal(what string, signal syscall.Signal) error {
	s.faults.Lock()
	defer s.faults.Unlock()
	if _, err := s.running.signal(signal); err != nil {
		return fmt.Errorf("%s %s on %s: %w", what, s.name, s.Addr, err)
	}
	return nil
}

// Close kills the server and removes its data. Further calls return the first result.
func (s *Server) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endBound)
		defer cancel()
		s.closeErr = errors.Join(s.Kill(ctx), os.RemoveAll(s.dir), s.claim.Close())
	})
	return s.closeErr
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// Log returns the end of the server's log.
func (s *Server) Log() string { return s.tail() }

// tail returns the end of the log.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.log())
	if err != nil {
		return fmt.Sprintf("(log: %v)", err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	return strings.Join(lines[max(0, len(lines)-31):], "")
}
