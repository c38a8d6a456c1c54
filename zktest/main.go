// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ServersVariable is the environment variable that MainWithServers sets.
const ServersVariable = "ZK_SERVERS"

// An M is the part of *testing.M that Main uses.
type M interface{ Run() int }

// Main runs the tests of a package and returns the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(zktest.Main(m)) }
//
// It fails a run that leaves an ensemble, a Lockkeeper client or a connection of the
// ZooKeeper client open: after tests that have passed, it waits up to 3 s for the
// goroutines of these to end, and prints the stacks of those that remain.
func Main(m M) int {
	code := m.Run()
	if code != 0 {
		return code // a failed test can leave anything
	}
	const patience = 3 * time.Second
	left := remaining()
	for began := time.Now(); len(left) > 0 && time.Since(began) < patience; left = remaining() {
		time.Sleep(10 * time.Millisecond)
	}
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(os.Stderr, "zktest: %d goroutines of ensembles or clients remain after the tests: close each ensemble and client\n\n%s\n",
		len(left), strings.Join(left, "\n\n"))
	return 1
}

// MainWithServers is Main for a package with examples, which have no *testing.T. While the
// tests run, the environment variable ServersVariable contains the address of a server in
// this process. If the variable is already set, it keeps its value and no server starts.
func MainWithServers(m M) int { return Main(withServers{m}) }

// withServers is an M with ServersVariable set while it runs.
type withServers struct{ m M }

func (w withServers) Run() (code int) {
	if os.Getenv(ServersVariable) != "" {
		return w.m.Run()
	}
	e, err := Run(context.Background(), nil)
	if err == nil {
		defer func() {
			if err := e.Close(); err != nil {
				code = max(code, fail(err))
			}
		}()
		err = os.Setenv(ServersVariable, strings.Join(e.Addrs(), ","))
	}
	if err != nil {
		return fail(err)
	}
	return w.m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// owned are the beginnings of the functions whose goroutines Main looks for.
var owned = []string{
	"github.com/lockkeeper/lockkeeper/zktest.", "github.com/lockkeeper/lockkeeper/recipes.",
	"github.com/lockkeeper/lockkeeper/internal/", "github.com/go-zookeeper/zk.",
}

// remaining returns the stacks of the goroutines that run a function of owned, except the caller's,
// and of those that may run one: they have not begun.
func remaining() (left []string) {
	stacks := make([]byte, 1<<16)
	n := runtime.Stack(stacks, true)
	for n == len(stacks) { // possibly cut off
		stacks = make([]byte, 2*n)
		n = runtime.Stack(stacks, true)
	}
	for i, stack := range bytes.Split(bytes.TrimSpace(stacks[:n]), []byte("\n\n")) {
		lines := strings.Split(string(stack), "\n")
		if i > 0 && (slices.ContainsFunc(lines, isOwned) || !begun(lines)) { // the first is the caller's
			left = append(left, string(stack))
		}
	}
	return left
}

func isOwned(line string) bool {
	function := strings.TrimPrefix(line, "created by ")
	return slices.ContainsFunc(owned, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// begun reports whether a goroutine of a WaitGroup runs its function. Before, its stack is the stack of
// WaitGroup.Go alone, and does not say whose function it is.
func begun(stack []string) bool {
	const header, call, creator = 1, 2, 2
	return len(stack) != header+call+creator || !strings.HasPrefix(stack[header], "sync.(*WaitGroup).Go")
}
