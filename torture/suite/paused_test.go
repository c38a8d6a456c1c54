// SPDX-License-Identifier: Apache-2.0

//go:build unix

package suite

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A contenderProcess has contenders in a separate process: see play.
type contenderProcess struct {
	env *env
	cmd *exec.Cmd
	in  io.Writer

	mu    sync.Mutex // guards lines
	lines []string   // that it has said and that were not heard yet
}

// contenderProcess starts a contender process, which is killed when the test ends.
func (s *env) contenderProcess(p workerSpec) *contenderProcess {
	s.t.Helper()
	text, err := json.Marshal(p)
	require.NoError(s.t, err)
	self, err := os.Executable()
	require.NoError(s.t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	// In a group of its own: if this process is killed, the kernel ends the group
	// that has no process left to continue it, even while it is stopped.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	require.NoError(s.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	require.NoError(s.t, cmd.Start())
	pl := &contenderProcess{env: s, cmd: cmd, in: in}
	var reading sync.WaitGroup
	reading.Go(func() {
		for r := bufio.NewScanner(out); r.Scan(); {
			pl.mu.Lock()
			pl.lines = append(pl.lines, r.Text())
			pl.mu.Unlock()
		}
	})
	s.t.Cleanup(func() {
		// Killed, not asked: it may be stopped. What ended it is known.
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("not heard of what the player said: %q", pl.lines)
		}
	})
	return pl
}

// waitForLine waits until the player's contender says something that begins with one of
// the words, and returns that. Each line is heard once.
func (p *contenderProcess) waitForLine(contender int, words ...string) string {
	p.env.t.Helper()
	var found string
	p.env.eventually(fmt.Sprintf("contender %d says one of %q", contender, words), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, line := range p.lines {
			said, ok := strings.CutPrefix(line, fmt.Sprint(contender, " "))
			for _, word := range append(words, "failed") {
				if ok && strings.HasPrefix(said, word) {
					found, p.lines = said, slices.Delete(p.lines, i, i+1)
					return true
				}
			}
		}
		return false
	})
	require.False(p.env.t, strings.HasPrefix(found, "failed"), found)
	return found
}

// token waits for a line that begins with the word, and returns the token in it.
func (p *contenderProcess) token(contender int, word string) fencing.Token {
	p.env.t.Helper()
	_, text, _ := strings.Cut(p.waitForLine(contender, word), " ")
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(p.env.t, err)
	return fencing.Token(n)
}

// tell says a word to the player.
func (p *contenderProcess) tell(word string) {
	p.env.t.Helper()
	_, err := fmt.Fprintln(p.in, word)
	require.NoError(p.env.t, err)
}

// suspend stops the player, and returns once it stands still: a signal is on its way
// for a while, in which a player may still hear of a release, and be granted what is
// rightly its own.
func (p *contenderProcess) suspend() {
	p.env.t.Helper()
	p.signal(syscall.SIGSTOP)
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		require.NoError(p.env.t, err)
		require.True(p.env.t, status.Stopped(), "the player has ended: %v", status)
		return
	}
}

// resume lets it go on.
func (p *contenderProcess) resume() {
	p.env.t.Helper()
	p.signal(syscall.SIGCONT)
}

func (p *contenderProcess) signal(sig os.Signal) {
	p.env.t.Helper()
	require.NoError(p.env.t, p.cmd.Process.Signal(sig))
}

// A process that is stopped for longer than its session lives writes before it can
// know: nothing but the store's gate helps against that.
func TestPausedHolderIsRefusedByTheGate(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	const timeout = 2 * time.Second
	var store fencing.Gate
	holder := s.contenderProcess(workerSpec{Servers: s.ensemble.Addrs(), Paths: []string{s.path("lock")}, Timeout: timeout})
	old := holder.token(0, "granted")
	holder.tell("write")
	require.NoError(t, store.Admit(holder.token(0, "write")))

	next := s.locking(s.ctx, s.mutex(s.connect(recipes.Options{SessionTimeout: timeout}), "lock"))
	s.waiting("lock", 2)
	holder.suspend()
	hold := next.granted()
	require.NoError(t, store.Admit(hold.Token()))

	holder.tell("write")
	holder.resume()
	late := holder.token(0, "write")
	require.Equal(t, old, late, "it wrote as the holder that it had been")
	err := store.Admit(late)
	require.ErrorIs(t, err, fencing.ErrStale)
	t.Log(err)
	holder.waitForLine(0, "notified")
	require.NoError(t, hold.Check(s.ctx))
	s.unlock(hold)
}

// A waiter's event lies in its socket while it is stopped and its session expires.
// Its server, isolated from the others, never hears of that: when the waiter wakes,
// it sees itself first in the queue, and another client holds the lock.
//
// Whether it looks before it notices that it has slept is a matter of luck, so it
// is tried with several waiters at the same time.
func TestWaiterOnStaleFollowerIsNotGranted(t *testing.T) {
	t.Parallel()
	const timeout, waiters = 3 * time.Second, 8
	s := onFresh(t, docker.Options{
		Servers:   3,
		SyncLimit: 200, // an isolated follower notices nothing for 40 s
		// What says nothing for T is disconnected at the next multiple of this, by
		// the server's clock: practically never.
		Properties: map[string]string{"zookeeper.nio.sessionlessCnxnTimeout": "1000000000"},
	})
	follower, leader := s.followers()[0], s.leader()
	stale := s.bare(follower.Addr())
	defer stale.Close()

	var names, paths []string
	var holds []*lock.Hold
	holder := s.connect(recipes.Options{SessionTimeout: timeout}, leader.Addr())
	for i := range waiters {
		names = append(names, fmt.Sprint("lock-", i))
		paths = append(paths, s.path(names[i]))
		holds = append(holds, s.lock(s.mutex(holder, names[i])))
	}
	stopped := s.contenderProcess(workerSpec{Servers: []string{follower.Addr()}, Paths: paths, Timeout: timeout, Patient: true})
	var next []*locking
	var lines [][]string
	for i, name := range names {
		stopped.waitForLine(i, "waiting")
		next = append(next, s.locking(s.ctx, s.mutex(holder, name)))
		s.waiting(name, 3)
		behind := slices.DeleteFunc(s.nodes(name), func(node string) bool { return s.path(name)+"/"+node == holds[i].Path() })
		lines = append(lines, behind)
	}

	stopped.suspend()
	for i, name := range names {
		s.unlock(holds[i])
		s.eventually("the follower has seen the release", func() bool { return len(s.nodesBy(stale, name)) == 2 })
	}
	require.NoError(t, follower.Isolate(s.ctx))
	for i, name := range names {
		holds[i] = next[i].granted()
		require.Equal(t, lines[i], s.nodesBy(stale, name), "the follower should show the waiter to be the first")
	}
	mode, err := follower.Mode(s.ctx)
	require.NoError(t, err)
	require.Equal(t, "follower", mode)

	stopped.resume()
	for i := range names {
		require.NotContains(t, stopped.waitForLine(i, "granted", "rejoined"), "granted")
		require.NoError(t, holds[i].Check(s.ctx))
	}

	require.NoError(t, follower.Heal(s.ctx))
	for i, name := range names {
		s.waiting(name, 2)
		s.unlock(holds[i])
		require.Greater(t, stopped.token(i, "granted"), holds[i].Token())
	}
	stopped.tell("unlock")
	for i := range names {
		stopped.waitForLine(i, "unlocked: <nil>")
	}
}
