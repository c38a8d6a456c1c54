// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
)

// A rival is a contender that uses another library's recipe. It is not safe for concurrent use.
type rival interface {
	useTest(t *testing.T) // failures from now on are failures of this test
	startAcquire()        // starts to acquire; awaitAcquired waits until it has
	awaitAcquired()
	requireWaiting(why string) // requires that it has not acquired yet
	tryIsRefused() bool        // requires that acquiring without waiting fails; false if the recipe cannot try
	release()
	startCount(file string, times int) // repeats: acquire, add one to the number in the file, release
	counted() bool                     // reports whether the counting is done, without waiting
	session() int64
	awaitLoss() // waits until its library has reported the loss of its session
	close()     // closes its session
}

// A rivalProcess is a rival in its own process: Contend.java or kazoo_contend.py. Both know these commands and answers,
// and end with their input:
//
//	acquire          acquired, once it is first in the queue
//	try              acquired or busy
//	release          released
//	count FILE N     counted
//	session          the number of its session
//	lost             lost, once its library has reported the loss
//
// Answers begin with a mark, because the libraries print as well.
type rivalProcess struct{ *process }

const mark = "= "

func (p rivalProcess) useTest(t *testing.T) { t.Helper(); p.t = t }

func (p rivalProcess) request(command, want string) {
	p.t.Helper()
	p.send(command)
	p.requireAnswer(command, want)
}

func (p rivalProcess) requireAnswer(command, want string) {
	p.t.Helper()
	require.Equal(p.t, mark+want, p.until(mark), "%s: %s", p.name, command)
}

func (p rivalProcess) startAcquire()      { p.send("acquire") }
func (p rivalProcess) awaitAcquired()     { p.t.Helper(); p.requireAnswer("acquire", "acquired") }
func (p rivalProcess) tryIsRefused() bool { p.t.Helper(); p.request("try", "busy"); return true }
func (p rivalProcess) release()           { p.t.Helper(); p.request("release", "released") }
func (p rivalProcess) awaitLoss()         { p.t.Helper(); p.request("lost", "lost") }

func (p rivalProcess) requireWaiting(why string) {
	p.t.Helper()
	line, answered := p.poll(mark)
	require.False(p.t, answered, "%s: answered %q too early: %s", p.name, line, why)
}

func (p rivalProcess) counted() bool {
	p.t.Helper()
	line, done := p.poll(mark)
	if done {
		require.Equal(p.t, mark+"counted", line, p.name)
	}
	return done
}

func (p rivalProcess) startCount(file string, times int) {
	p.send(fmt.Sprintf("count %s %d", file, times))
}

func (p rivalProcess) session() int64 {
	p.t.Helper()
	p.send("session")
	id, err := strconv.ParseInt(strings.TrimPrefix(p.until(mark), mark), 10, 64)
	require.NoError(p.t, err)
	return id
}

func curatorMutex(t *testing.T, s *server, path string) rival {
	t.Helper()
	return curator(t, "mutex", s, path)
}

func curator(t *testing.T, recipe string, s *server, path string) rivalProcess {
	t.Helper()
	return rivalProcess{java(t, slices.Concat(zooKeeperJars, curatorJars), "Contend.java", recipe, s.list(), path)}
}

func kazooLock(t *testing.T, s *server, path string) rival {
	t.Helper()
	return rivalProcess{python(t, "kazoo_contend.py", s.list(), path)}
}

// A goLock is go-zookeeper's lock.
type goLock struct {
	t      *testing.T
	conn   *zk.Conn
	lock   *zk.Lock
	result chan error // of the current Lock, or of the current counting
}

func goZooKeeperLock(t *testing.T, s *server, path string) rival {
	t.Helper()
	conn := s.connect(t)
	return &goLock{t: t, conn: conn, lock: zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)), result: make(chan error, 1)}
}

func (l *goLock) useTest(t *testing.T) { t.Helper(); l.t = t }

func (l *goLock) startAcquire() { go func() { l.result <- l.lock.Lock() }() }

func (l *goLock) awaitAcquired() {
	l.t.Helper()
	select {
	case err := <-l.result:
		require.NoError(l.t, err)
	case <-bounded(l.t).Done():
		require.FailNow(l.t, "zk.Lock did not return")
	}
}

func (l *goLock) requireWaiting(why string) {
	l.t.Helper()
	select {
	case err := <-l.result:
		require.FailNow(l.t, "zk.Lock returned too early", "%v: %s", err, why)
	default:
	}
}

func (l *goLock) tryIsRefused() bool { return false }
func (l *goLock) release()           { l.t.Helper(); require.NoError(l.t, l.lock.Unlock()) }

func (l *goLock) startCount(file string, times int) {
	go func() {
		for range times {
			if err := addOne(l.lock.Lock, file, l.lock.Unlock); err != nil {
				l.result <- err
				return
			}
		}
		l.result <- nil
	}()
}

func (l *goLock) counted() bool {
	l.t.Helper()
	select {
	case err := <-l.result:
		require.NoError(l.t, err)
		return true
	default:
		return false
	}
}

func (l *goLock) session() int64 { return l.conn.SessionID() }

// awaitLoss returns immediately: zk.Lock does not report a loss.
func (l *goLock) awaitLoss() {}
func (l *goLock) close()     { l.conn.Close() }

// addOne adds one to the number in a file, between acquire and release.
func addOne(acquire func() error, file string, release func() error) error {
	if err := acquire(); err != nil {
		return err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, []byte(strconv.Itoa(number+1)), 0o600); err != nil {
		return err
	}
	return release()
}
