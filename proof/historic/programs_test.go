// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/semver"

	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Kazoo and Curator run in the programs of package zktest/foreign.
const foreign = root + "/zktest/foreign"

// A served is a zktest ensemble on a socket, in real time, for other processes.
type served struct {
	*testing.T
	*zktest.Ensemble
}

// serve starts the servers of programs. A session of theirs expires only on request: no machine is as slow as its timeout.
func serve(t *testing.T) served {
	t.Helper()
	return served{t, zktest.Start(t, &zktest.Options{Tick: time.Minute})}
}

// kazoo starts a contender that uses a recipe of Kazoo.
func (s served) kazoo(recipe string) *program {
	s.Helper()
	cmd, err := contender.Python(s.Context(), filepath.Join(foreign, "kazoo_contend.py"), recipe, s.Addrs()[0], path)
	return s.start(cmd, err)
}

// curator starts a contender that uses a recipe of Curator.
func (s served) curator(recipe string) *program {
	s.Helper()
	compile.once.Do(func() {
		classes, compile.err = os.MkdirTemp("", "historic") // all tests share it, and TestMain removes it
		if compile.err == nil {
			compile.path, compile.err = contender.CompileJava(context.WithoutCancel(s.Context()), filepath.Join(foreign, "Contend.java"), classes)
		}
	})
	return s.start(exec.CommandContext(s.Context(), "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
		"-cp", compile.path, "Contend", recipe, s.Addrs()[0], path), compile.err)
}

// Contend.java is compiled once.
var (
	compile struct {
		once sync.Once
		path string // the class path
		err  error
	}
	classes string // the folder, which TestMain removes
)

// A program is a contender in another process.
type program struct {
	served
	*contender.Process
	version string
	session int64
}

func (s served) start(cmd *exec.Cmd, err error) *program {
	s.Helper()
	if errors.Is(err, contender.ErrNotInstalled) {
		need.Lacking(s, "%v", err)
	}
	require.NoError(s, err)
	p := &program{served: s, Process: contender.Start(s, cmd)}
	p.version = strings.TrimPrefix(p.Await("version"), "version ")
	p.Send("session")
	p.session = p.Number("session")
	return p
}

// unlessFixed skips the test if the installed version of the library lacks the defect.
func (p *program) unlessFixed(fixed string) {
	p.served.Helper()
	if semver.Compare("v"+p.version, "v"+fixed) >= 0 {
		p.Skipf("not run: version %s is installed, and %s has fixed it", p.version, fixed)
	}
}

// acquire acquires the lock, which is free.
func (p *program) acquire() {
	p.served.Helper()
	p.Request("acquire", "acquired")
}

// queued waits until the contender has a node in the queue, and returns its path.
func (p *program) queued() (node string) {
	p.served.Helper()
	p.eventually("node in the queue", func() bool {
		names, err := p.Children(path)
		if errors.Is(err, zktest.ErrNoNode) {
			return false
		}
		require.NoError(p.served, err)
		for _, name := range names {
			if _, stat, err := p.Get(path + "/" + name); err == nil && stat.EphemeralOwner == p.session {
				node = path + "/" + name
			}
		}
		return node != ""
	})
	return node
}

// waitsFor waits until the contender watches a node, and requires that it has not been granted the lock.
func (p *program) waitsFor(node string) {
	p.served.Helper()
	p.eventually("watch of "+node, func() bool {
		return slices.ContainsFunc(p.Watches(), func(w zktest.Watch) bool { return w.Session == p.session && w.Path == node })
	})
	p.RequireWaiting("it waits for " + node)
}

// eventually waits until something holds.
func (s served) eventually(what string, holds func() bool) {
	s.Helper()
	for began := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		require.Less(s, time.Since(began), 2*time.Minute, what)
	}
}
