// SPDX-License-Identifier: Apache-2.0

//go:build linux

package guardian

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSessionsOfDeadProcessAreClosedHoweverItEnds(t *testing.T) {
	w := newWorld(t, 1)
	socket := serve(t)
	for _, end := range []string{"die", "exit", "panic"} {
		for _, socket := range []string{"", socket} {
			p := w.start(task{Sessions: 3, Socket: socket})
			p.end(end)
			w.awaitClosed(p.sessions...)
		}
	}
}

func TestGuardianEndsWithItsParent(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{})
	pid := p.pid("guardian")
	p.Kill()
	requireGone(t, pid)
}

// requireGone waits until a process has ended. Init may not wait for it.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return !lives(pid) }, time.Minute, time.Millisecond)
}

// lives reports whether a process has not ended: a zombie has.
func lives(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// The socket alone says nothing of the process.
func TestClosedSocketClosesNoSessionOfLivingProcess(t *testing.T) {
	w := newWorld(t, 1)
	for _, socket := range []string{"", serve(t)} {
		p := w.start(task{Sessions: 1, Socket: socket})
		first := 0
		if socket == "" {
			first = p.pid("guardian")
		}
		p.do("shut")
		p.do("await")
		require.Empty(t, intersect(w, p), "the process lives")
		if first != 0 {
			require.NotEqual(t, first, p.pid("guardian"))
		}
		p.Kill()
		w.awaitClosed(p.sessions...)
	}
}

// intersect returns the sessions of the process that have ended.
func intersect(w *world, p *guardedProcess) (ended []closing) {
	for _, c := range w.closings() {
		for _, id := range p.sessions {
			if c.session == id {
				ended = append(ended, c)
			}
		}
	}
	return ended
}

func TestForkedProcessThatHoldsTheSocketDelaysNothing(t *testing.T) {
	w := newWorld(t, 1)
	for _, socket := range []string{"", serve(t)} {
		p := w.start(task{Sessions: 1, Socket: socket})
		heir := p.pid("fork")
		require.NoError(t, p.Signal(syscall.SIGKILL))
		w.awaitClosed(p.sessions...)
		require.True(t, lives(heir))
		require.NoError(t, syscall.Kill(heir, syscall.SIGKILL))
	}
}

func TestStoppedProcessKeepsItsSessionUntilItIsKilled(t *testing.T) {
	w := newWorld(t, 1)
	for _, socket := range []string{"", serve(t)} {
		p := w.start(task{Sessions: 1, Socket: socket})
		require.NoError(t, p.Stop())
		other := w.start(task{Sessions: 1, Socket: socket})
		other.Kill()
		w.awaitClosed(other.sessions...) // so much time has passed
		require.Empty(t, intersect(w, p))
		p.Kill() // while it is stopped
		w.awaitClosed(p.sessions...)
	}
}

func TestProcessThatExecutesAnotherProgramLives(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{Sessions: 1})
	other := w.start(task{Sessions: 1})
	require.NoError(t, p.Send("exec"))
	require.Eventually(t, func() bool {
		name, err := os.ReadFile(filepath.Join("/proc", itoa(p.Pid()), "comm"))
		return err == nil && string(name) == "sleep\n"
	}, time.Minute, time.Millisecond)
	other.Kill()
	w.awaitClosed(other.sessions...)
	require.Empty(t, intersect(w, p))
	p.Kill()
	w.awaitClosed(p.sessions...) // what the guardian acts on is the process, whatever it executes
}

func TestKilledGuardianIsReplacedAndGetsAllSessions(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{Sessions: 3})
	first := p.pid("guardian")
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	requireGone(t, first)
	require.Eventually(t, func() bool {
		pid, err := guardianOf(p.Pid())
		return err == nil && pid != first
	}, time.Minute, time.Millisecond)
	p.do("await")
	require.Empty(t, intersect(w, p))
	p.Kill()
	w.awaitClosed(p.sessions...)
}

func TestGuardianThatIsStoppedActsWhenItContinues(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{Sessions: 1})
	guardian := p.pid("guardian")
	require.NoError(t, syscall.Kill(guardian, syscall.SIGSTOP))
	p.Kill()
	other := w.start(task{Sessions: 1})
	other.Kill()
	w.awaitClosed(other.sessions...)
	require.Empty(t, intersect(w, p), "no other process closes it")
	require.NoError(t, syscall.Kill(guardian, syscall.SIGCONT))
	w.awaitClosed(p.sessions...)
	requireGone(t, guardian)
}

// These sessions are in use all the same: the client has waited T/24 for the guardian.
func TestSessionsRegisteredImmediatelyBeforeTheDeathAreClosed(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{})
	guardian := p.pid("guardian")
	require.NoError(t, syscall.Kill(guardian, syscall.SIGSTOP))
	p.do("crowd " + w.Addrs()[0])
	for range 100 {
		p.sessions = append(p.sessions, p.number("session "))
	}
	p.Kill()
	require.NoError(t, syscall.Kill(guardian, syscall.SIGCONT))
	w.awaitClosed(p.sessions...)
}

func TestGuardianIgnoresSignalsOfTheProcessGroupAndTheTerminal(t *testing.T) {
	w := newWorld(t, 1)
	p := w.start(task{Sessions: 1})
	guardian := p.pid("guardian")
	for _, s := range ignored {
		require.NoError(t, syscall.Kill(guardian, s.(syscall.Signal)))
	}
	require.NoError(t, syscall.Kill(-p.Pid(), syscall.SIGKILL)) // its group
	w.awaitClosed(p.sessions...)
	requireGone(t, guardian)
}

func TestForgottenSessionIsClosedUntilTwiceItsTimeout(t *testing.T) {
	own := NewSessions()
	own.Guard(Session{ID: 1, Timeout: time.Minute})
	own.Guard(Session{ID: 2})
	own.Forget(1)
	own.Forget(2)
	own.Guard(Session{ID: 3, Timeout: time.Minute})
	require.Len(t, own.alive(), 2)
	require.NotContains(t, own.byID, int64(2))
	require.WithinRange(t, own.byID[1].forget, time.Now().Add(time.Minute), time.Now().Add(2*time.Minute))

	w := newWorld(t, 1)
	p := w.start(task{Sessions: 2})
	p.do("forget " + itoa(int(p.sessions[0])))
	p.do("await")
	p.Kill()
	w.awaitClosed(p.sessions...) // the close of a client may not have been answered
}
