// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A supervisor starts worker processes, prints their logs, and freezes the leader.
type supervisor struct {
	server    *zktest.Ensemble
	chroot    string // of the worker processes, if not empty
	dir       string
	began     time.Time
	processes map[string]*child
	records   chan record // of all worker processes; closed when all have ended
	leader    string      // the process that last logged that it leads
	frozen    string      // the process that is frozen
	thawed    bool        // the process that was frozen continues
	reading   sync.WaitGroup
}

// A child is a running worker process.
type child struct {
	cmd *exec.Cmd
	in  io.Closer
}

// A record is a line of the log of a process.
type record struct {
	process, message, attributes string
}

// start starts the ZooKeeper server and the worker processes.
func start(about string, processes int, chroot string) (_ *supervisor, err error) {
	s := &supervisor{began: time.Now(), chroot: chroot, processes: map[string]*child{}, records: make(chan record, 64)}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	s.reading.Add(1) // while further processes can be started
	defer s.reading.Done()
	go func() { // close waits for it
		s.reading.Wait()
		close(s.records)
	}()
	if s.server, err = zktest.Run(context.Background(), &zktest.Options{Tick: sessionTimeout / 8}); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "lockkeeper-example"); err != nil {
		return nil, err
	}
	fmt.Printf("%s\n%d worker processes, a ZooKeeper server in the process that starts them (zktest), sessions of %v\n\n", about, processes, sessionTimeout)
	for i := range processes {
		if err := s.startProcess(string(rune('a' + i))); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *supervisor) startProcess(name string) error {
	config, err := json.Marshal(&Process{Name: name, Servers: []string{strings.Join(s.server.Addrs(), ",") + s.chroot}, SessionTimeout: sessionTimeout, Dir: s.dir})
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), processVariable+"="+string(config))
	cmd.Stderr = os.Stderr
	separate(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start process %s: %w", name, err)
	}
	s.processes[name] = &child{cmd: cmd, in: in}
	s.reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); { // until the process ends
			message, attributes := parseRecord(lines.Text())
			s.records <- record{name, message, attributes}
		}
	})
	return nil
}

// print prints an event of a process, or of the supervisor if process is empty.
func (s *supervisor) print(process, text string) {
	fmt.Printf("%7.2fs  %-2s %s\n", time.Since(s.began).Seconds(), process, text)
}

// handle prints a record and notes which process leads.
func (s *supervisor) handle(r record) {
	s.print(r.process, r.message+r.attributes)
	if r.message == leading {
		s.leader = r.process
	}
}

// freeze stops the leader, in whatever it is doing.
func (s *supervisor) freeze() error {
	if s.frozen != "" {
		s.print("", s.frozen+" is already frozen")
		return nil
	}
	if s.leader == "" {
		s.print("", "no process leads yet")
		return nil
	}
	if err := stopProcess(s.processes[s.leader].cmd.Process); err != nil {
		return fmt.Errorf("freeze %s: %w", s.leader, err)
	}
	s.frozen, s.thawed = s.leader, false
	s.print("", fmt.Sprintf("*** %s is frozen (SIGSTOP); its session expires in %v", s.frozen, sessionTimeout))
	return nil
}

// thaw lets the frozen process continue.
func (s *supervisor) thaw() error {
	if s.frozen == "" {
		s.print("", "no process is frozen")
		return nil
	}
	s.print("", fmt.Sprintf("*** %s continues where it was stopped (SIGCONT)", s.frozen))
	if err := continueProcess(s.processes[s.frozen].cmd.Process); err != nil {
		return fmt.Errorf("thaw %s: %w", s.frozen, err)
	}
	s.frozen, s.thawed = "", true
	return nil
}

// interactive freezes and thaws the leader as the user types.
func (s *supervisor) interactive(ctx context.Context, in io.Reader) error {
	fmt.Print("Type f and Enter to freeze the leader, t to let it continue, q to quit.\n\n")
	typed := make(chan string)
	go func() { // ends with the process: a read of a terminal cannot be interrupted
		defer close(typed)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			typed <- strings.TrimSpace(lines.Text())
		}
	}()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r, running := <-s.records:
			if !running {
				return errors.New("all worker processes have ended")
			}
			s.handle(r)
		case word, open := <-typed:
			switch {
			case !open || word == "q":
				return nil
			case word == "f":
				err = s.freeze()
			case word == "t":
				err = s.thaw()
			default:
				s.print("", fmt.Sprintf("unknown command %q: want f, t or q", word))
			}
		}
		if err != nil {
			return err
		}
	}
}

// script freezes the leader after its second write, lets it continue after two writes of its successor, and returns nil
// when the stale write has been rejected.
func (s *supervisor) script(ctx context.Context) error {
	const limit = time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no stale write was rejected within %v", limit))
	defer cancel()
	var first string // the process that is frozen
	var frozen time.Time
	pending := ""   // the attributes of the write that it has started: another one of its writes may have been accepted before
	successor := "" // the process that led after the session of the first had expired
	writes := 0
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r, running := <-s.records:
			if !running {
				return errors.New("all worker processes have ended")
			}
			s.handle(r)
			// Its session expires a session timeout after its last heartbeat. A process that leads much earlier leads something else.
			if r.message == leading && first != "" && r.process != first && time.Since(frozen) > sessionTimeout/2 {
				successor = r.process
			}
			switch {
			case first == "" && r.message == written:
				writes++
			case first == "" && r.message == started && r.process == s.leader && writes >= 2:
				first, writes = r.process, 0
				frozen, pending = time.Now(), r.attributes+" "
				if err := s.freeze(); err != nil {
					return err
				}
			case first != "" && !s.thawed && r.process == successor && r.message == written:
				if writes++; writes < 2 {
					continue
				}
				if err := s.thaw(); err != nil {
					return err
				}
			case s.thawed && r.process == first && r.message == written && strings.HasPrefix(r.attributes, pending):
				return fmt.Errorf("the stale write of %s was accepted", first)
			case s.thawed && r.process == first && r.message == rejected && strings.HasPrefix(r.attributes, pending):
				fmt.Printf("\nok: %s was frozen, another process led and wrote, and the stale write of %s was rejected\n", first, first)
				return nil
			}
		}
	}
}

// outside returns an error if a worker process has written outside its chroot.
func (s *supervisor) outside() error {
	if s.chroot == "" {
		return nil
	}
	names, err := s.server.Children("/")
	for _, name := range names {
		if name != "zookeeper" && !strings.HasPrefix(s.chroot+"/", "/"+name+"/") {
			err = errors.Join(err, fmt.Errorf("/%s was created outside the chroot %s", name, s.chroot))
		}
	}
	return err
}

// close ends the worker processes, then the server.
func (s *supervisor) close() error {
	for _, p := range s.processes {
		_ = p.in.Close()                   // asks the process to end
		_ = continueProcess(p.cmd.Process) // it may be frozen
	}
	for range s.records {
		continue // discard what the processes still log
	}
	var errs []error
	for name, p := range s.processes {
		if err := p.cmd.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("process %s: %w", name, err))
		}
	}
	if s.server != nil {
		errs = append(errs, s.outside(), s.server.Close())
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
