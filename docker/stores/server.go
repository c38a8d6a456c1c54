// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// How long a server may take to start and, once killed, to end.
const (
	startBound = time.Minute
	endBound   = 30 * time.Second
)

// Options for the start of a server; zero fields mean the default.
type Options struct {
	_ struct{}

	// Args are put behind the command line that the server gets from this package, and so win over it.
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
	// Addr is where it listens, host:port. It stays the same.
	Addr string

	name  string
	dir   string // holds the log and the folder data
	argv  []string
	as    *user
	ready func(ctx context.Context) error // nil when it serves

	faults  sync.Mutex // one of Kill, Start, Pause, Unpause at a time; guards running
	running *process   // nil before the first start

	closing  sync.Once
	closeErr error
}

// prepared returns a server with a folder and a port that is free. Its argv and ready are the caller's to set.
func prepared(name string) (*Server, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: l.Addr().String(), name: name, as: as}
	if err := l.Close(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "lockkeeper-"+name+"-"); err != nil {
		return nil, err
	}
	err = os.Mkdir(s.data(), 0o700)
	if err == nil && as != nil {
		err = errors.Join(os.Chown(s.dir, int(as.uid), int(as.gid)), os.Chown(s.data(), int(as.uid), int(as.gid)))
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr) // it came from a listener
	return port
}

// run starts s for the first time, and on error leaves nothing.
func (s *Server) run(ctx context.Context) (*Server, error) {
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Start starts the server again, after Kill: with the data that it had, on the same port. It returns once the server
// serves, or with an error and the end of its log after at most a minute; ctx bounds the start only. A server that runs
// is left alone.
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

// Kill ends the server's processes as kill -9 does, and returns once they have gone. Start starts it again.
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

// Unpause lets a paused server go on.
func (s *Server) Unpause() error { return s.signal("unpause", syscall.SIGCONT) }

func (s *Server) signal(what string, signal syscall.Signal) error {
	s.faults.Lock()
	defer s.faults.Unlock()
	if err := s.running.signal(signal); err != nil {
		return fmt.Errorf("%s %s on %s: %w", what, s.name, s.Addr, err)
	}
	return nil
}

// Close kills the server and removes its data. Further calls return the first result.
func (s *Server) Close() error {
	s.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), endBound)
		defer cancel()
		s.closeErr = errors.Join(s.Kill(ctx), os.RemoveAll(s.dir))
	})
	return s.closeErr
}

func (s *Server) log() string { return filepath.Join(s.dir, "log") }

// tail is the end of the log.
func (s *Server) tail() string {
	b, err := os.ReadFile(s.log())
	if err != nil {
		return fmt.Sprintf("(log: %v)", err)
	}
	lines := strings.SplitAfter(string(b), "\n")
	return strings.Join(lines[max(0, len(lines)-31):], "")
}
