// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/guardian"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// A supervisor runs one command under a hold, and ends the command with the hold.
type supervisor struct {
	hold    hold
	cmd     *exec.Cmd
	signals <-chan os.Signal // to forward
	stderr  io.Writer
	guard   *guardian.Guard // nil for none

	logging  sync.WaitGroup
	terminal *os.File // that the command has in the foreground; nil if there is none
}

// run starts the command, waits for its end, and releases the hold. Its error has the exit
// status of the command, or of a hold that was lost.
func (s *supervisor) run() error {
	defer s.logging.Wait() // after the release
	ended, err := s.start()
	if err != nil {
		return errors.Join(err, s.release())
	}
	status, err := s.await(ended)
	s.group().end(s.report)
	s.killFirst(0)
	reclaim(s.terminal)
	if lost := s.hold.Err(); lost != nil {
		_ = s.release() // its error is the loss
		return &statusError{statusLost, fmt.Errorf("%w; the command ended with status %d", lost, status)}
	}
	if released := s.release(); released != nil {
		return released
	}
	if status != 0 {
		return &statusError{status: status}
	}
	return err
}

// start starts the command. Its end is delivered on the channel.
func (s *supervisor) start() (ended <-chan end, err error) {
	s.killFirst(guardian.Unknown) // the group exists a moment before it is known
	s.terminal = foregroundOf(s.cmd.Stdin)
	prepare(s.cmd, s.terminal)
	started, known, ends := make(chan error), make(chan struct{}), make(chan end, 1)
	go func() {
		// Linux sends the signal for the death of the parent when this thread ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			<-known // a process that was waited for does not name its group
			ends <- waitForAll(s.cmd)
		}
	}()
	if err := <-started; err != nil {
		s.killFirst(0)
		reclaim(s.terminal) // a child whose program is not executed has taken the terminal
		return nil, startError(err)
	}
	outliveWarnings()
	s.killFirst(s.cmd.Process.Pid)
	close(known)
	return ends, nil
}

// killFirst has the guardian kill a process group before it closes the session. Without the guardian's answer, the command runs
// without it: the session then expires.
func (s *supervisor) killFirst(group int) {
	if s.guard == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), guardTimeout)
	defer cancel()
	if err := s.guard.Group(ctx, group); err != nil {
		_ = s.guard.Close() // it never fails
		s.guard = nil
		s.logging.Go(func() { logError(s.stderr, "run: the command runs without a guardian: %v", err) })
	}
}

// guardTimeout bounds the wait for an answer of the guardian, which has only to read a message.
const guardTimeout = time.Second

// await waits for the end of the command. When the hold is lost, it ends the command.
func (s *supervisor) await(ended <-chan end) (status int, err error) {
	done := s.hold.Done()
	var kill <-chan time.Time
	for {
		select {
		case e := <-ended:
			return e.status, e.err
		case received := <-s.signals:
			s.report(s.group().forward(received))
		case <-done:
			done = nil
			grace := s.hold.grace(time.Now())
			refused := s.group().terminate()
			kill = time.After(grace)
			// A write to standard error can block, and must not delay SIGKILL.
			s.logging.Go(func() {
				logError(s.stderr, "run: %v: the command gets SIGTERM, and SIGKILL in %v", s.hold.Err(), grace.Round(time.Millisecond))
			})
			s.report(refused)
		case <-kill:
			kill = nil
			s.report(s.group().kill())
		}
	}
}

// report prints the error of a signal, nil for none, and its consequence. A write to standard error can block, and must not delay
// SIGKILL.
func (s *supervisor) report(err error) {
	if err == nil {
		return
	}
	consequence := "its processes continue"
	if s.hold.Err() != nil {
		consequence += " without the hold"
	}
	s.logging.Go(func() { logError(s.stderr, "run: %v: %s", err, consequence) })
}

func (s *supervisor) group() group { return group(s.cmd.Process.Pid) }

// release releases the hold. A release that no server confirmed is only reported: the lock is
// free when the session or the lease ends.
func (s *supervisor) release() error {
	err := s.hold.release(context.Background())
	switch {
	case errors.Is(err, recipes.ErrLost), errors.Is(err, client.ErrLost): // also if the release of another lock is uncertain
		return &statusError{statusLost, err}
	case errors.Is(err, recipes.ErrUncertain):
		logError(s.stderr, "run: %v: the lock is free when the session has expired", err)
		return nil
	case errors.Is(err, client.ErrUncertain):
		logError(s.stderr, "run: %v: the lock is free when the lease has ended", err)
		return nil
	case err != nil:
		return internal(err)
	}
	return nil
}

// graceOf returns how long a command may take to stop after its hold was lost at now: an
// eighth of the session timeout T, the least time between the notification of a loss and a
// grant to another client. If this process was paused, the notification is late: then the
// time ends T/8 before the session can expire, which is T after the last proof of
// liveness. The wall clock also counts the time in which the machine was suspended. proof
// is zero if it is not known.
func graceOf(now, proof time.Time, timeout time.Duration) time.Duration {
	grace := timeout / 8
	if !proof.IsZero() {
		grace = min(grace, proof.Round(0).Add(timeout-timeout/8).Sub(now.Round(0)))
	}
	return max(grace, 0)
}

// startError returns the error of a command that could not be started, with the status
// that shells use.
func startError(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &statusError{statusNotFound, err}
	}
	return &statusError{statusNotExecuted, err}
}
