// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(zktest.Main(withClasses{m}))
}

// withClasses removes the compiled client after the last test.
type withClasses struct{ *testing.M }

func (m withClasses) Run() int {
	status := m.M.Run()
	if err := os.RemoveAll(classes); err != nil { // nothing if it is ""
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// A rival is a contender that uses another library's recipe: Contend.java, kazoo_contend.py or zk.Lock.
type rival struct {
	*contender.Process
	cannotTry bool // without waiting
}

// An opener starts a rival that contends on a path.
type opener = func(*testing.T, *server, string) rival

func (r rival) startAcquire()      { r.Send("acquire") }
func (r rival) awaitAcquired()     { r.Await("acquired") }
func (r rival) release()           { r.Request("release", "released") }
func (r rival) counted() bool      { return r.Poll("counted") != "" }
func (r rival) session() (n int64) { r.Send("session"); return r.Number("session") }

func (r rival) requireBusy(t *testing.T) {
	t.Helper()
	require.Equal(t, "busy", r.Request("try", "busy", "acquired"))
}

func (r rival) startCount(file string, times int) { r.Send(fmt.Sprintf("count %s %d", file, times)) }

func curatorMutex(t *testing.T, s *server, path string) rival {
	t.Helper()
	return curator(t, "mutex", s, path)
}

func curator(t *testing.T, recipe string, s *server, path string) rival {
	t.Helper()
	return rival{Process: contend(t, recipe, s.list(), path)}
}

func kazooLock(t *testing.T, s *server, path string) rival {
	t.Helper()
	return kazoo(t, "lock", s, path)
}

func kazoo(t *testing.T, recipe string, s *server, path string) rival {
	t.Helper()
	return rival{Process: python(t, "kazoo_contend.py", recipe, s.list(), path)}
}

// curatorRecipe and kazooRecipe return a function that opens this recipe.
func curatorRecipe(recipe string) opener {
	return func(t *testing.T, s *server, path string) rival { t.Helper(); return curator(t, recipe, s, path) }
}

func kazooRecipe(recipe string) opener {
	return func(t *testing.T, s *server, path string) rival { t.Helper(); return kazoo(t, recipe, s, path) }
}

func goZooKeeperLock(t *testing.T, s *server, path string) rival {
	t.Helper()
	return rival{Process: contender.Start(t, zkLock.Command(t.Context(), zkLockTask{s.addresses, path})), cannotTry: true}
}

type zkLockTask struct {
	Servers []string
	Path    string
}

// zkLock contends with go-zookeeper's lock, which cannot be tried.
var zkLock = child.New("zk.Lock", func(task zkLockTask) error {
	conn, events, err := zk.Connect(task.Servers, sessionTimeout, zk.WithLogger(quiet{}))
	if err != nil {
		return err
	}
	go func() { // ends with the connection
		for event := range events {
			if event.State == zk.StateExpired {
				contender.Report("lost")
			}
		}
	}()
	defer conn.Close()
	lock := zk.NewLock(conn, task.Path, zk.WorldACL(zk.PermAll))
	return contender.Serve(map[string]func([]string) (string, error){
		"acquire": func([]string) (string, error) { return "acquired", lock.Lock() },
		"release": func([]string) (string, error) { return "released", lock.Unlock() },
		"session": func([]string) (string, error) { return fmt.Sprint("session ", conn.SessionID()), nil },
		"count": func(args []string) (string, error) {
			times, err := strconv.Atoi(args[1])
			for i := 0; i < times && err == nil; i++ {
				err = addOne(lock.Lock, args[0], lock.Unlock)
			}
			return "counted", err
		},
	})
})

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
