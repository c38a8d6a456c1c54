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

// A rival contends with us by a recipe that we did not write. It is driven from one goroutine.
type rival interface {
	under(t *testing.T) // what goes wrong from now on is this test's
	askToTake()         // begins to wait for the front of the line; taken waits for the end of that
	taken()
	waits(why string) // requires that taken would not return yet
	refused() bool    // tries to take without waiting, false where the recipe cannot
	leave()
	askToCount(file string, times int) // takes, adds one to the number in the file, leaves, and so on
	counted() bool                     // whether that is done; it does not wait
	session() int64
	lose()   // waits until it was told that its session is lost
	finish() // closes its session
}

// A program is a rival in a process of its own: Contend.java or kazoo_contend.py. They know these commands and answers:
//
//	take             taken, once it is first in line
//	try              taken or busy
//	leave            left
//	count FILE N     counted
//	session          the number of its session
//	lost             lost, once its client has told it so
//
// and end with their input. Answers begin with a mark, as their libraries have things to say too.
type program struct{ *process }

const mark = "= "

func (p program) under(t *testing.T) { t.Helper(); p.t = t }

func (p program) ask(command, want string) {
	p.t.Helper()
	p.tell(command)
	p.answer(command, want)
}

func (p program) answer(command, want string) {
	p.t.Helper()
	require.Equal(p.t, mark+want, p.until(mark), "%s: %s", p.name, command)
}

func (p program) askToTake()    { p.tell("take") }
func (p program) taken()        { p.t.Helper(); p.answer("take", "taken") }
func (p program) refused() bool { p.t.Helper(); p.ask("try", "busy"); return true }
func (p program) leave()        { p.t.Helper(); p.ask("leave", "left") }
func (p program) lose()         { p.t.Helper(); p.ask("lost", "lost") }

func (p program) waits(why string) {
	p.t.Helper()
	line, spoke := p.poll(mark)
	require.False(p.t, spoke, "%s: %q came too early: %s", p.name, line, why)
}

func (p program) counted() bool {
	p.t.Helper()
	line, done := p.poll(mark)
	if done {
		require.Equal(p.t, mark+"counted", line, p.name)
	}
	return done
}

func (p program) askToCount(file string, times int) { p.tell(fmt.Sprintf("count %s %d", file, times)) }

func (p program) session() int64 {
	p.t.Helper()
	p.tell("session")
	id, err := strconv.ParseInt(strings.TrimPrefix(p.until(mark), mark), 10, 64)
	require.NoError(p.t, err)
	return id
}

func curatorMutex(t *testing.T, s *server, path string) rival {
	t.Helper()
	return curator(t, "mutex", s, path)
}

func curator(t *testing.T, recipe string, s *server, path string) program {
	t.Helper()
	return program{java(t, slices.Concat(zooKeeperJars, curatorJars), "Contend.java", recipe, s.list(), path)}
}

func kazooLock(t *testing.T, s *server, path string) rival {
	t.Helper()
	return program{python(t, "kazoo_contend.py", s.list(), path)}
}

// A goLock is go-zookeeper's own.
type goLock struct {
	t     *testing.T
	conn  *zk.Conn
	lock  *zk.Lock
	first chan error // of the Lock, or of the counting, that is under way
}

func goZooKeeperLock(t *testing.T, s *server, path string) rival {
	t.Helper()
	conn := s.connect(t)
	return &goLock{t: t, conn: conn, lock: zk.NewLock(conn, path, zk.WorldACL(zk.PermAll)), first: make(chan error, 1)}
}

func (l *goLock) under(t *testing.T) { t.Helper(); l.t = t }

func (l *goLock) askToTake() { go func() { l.first <- l.lock.Lock() }() }

func (l *goLock) taken() {
	l.t.Helper()
	select {
	case err := <-l.first:
		require.NoError(l.t, err)
	case <-bounded(l.t).Done():
		require.FailNow(l.t, "zk.Lock did not return")
	}
}

func (l *goLock) waits(why string) {
	l.t.Helper()
	select {
	case err := <-l.first:
		require.FailNow(l.t, "zk.Lock returned too early", "%v: %s", err, why)
	default:
	}
}

func (l *goLock) refused() bool { return false }
func (l *goLock) leave()        { l.t.Helper(); require.NoError(l.t, l.lock.Unlock()) }

func (l *goLock) askToCount(file string, times int) {
	go func() {
		for range times {
			if err := addOne(l.lock.Lock, file, l.lock.Unlock); err != nil {
				l.first <- err
				return
			}
		}
		l.first <- nil
	}()
}

func (l *goLock) counted() bool {
	l.t.Helper()
	select {
	case err := <-l.first:
		require.NoError(l.t, err)
		return true
	default:
		return false
	}
}

func (l *goLock) session() int64 { return l.conn.SessionID() }

// lose has nothing to wait for: zk.Lock is told of nothing.
func (l *goLock) lose()   {}
func (l *goLock) finish() { l.conn.Close() }

// addOne adds one to the number in a file, between take and leave.
func addOne(take func() error, file string, leave func() error) error {
	if err := take(); err != nil {
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
	return leave()
}
