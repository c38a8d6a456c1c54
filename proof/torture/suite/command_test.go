// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

// program is the command, which the first test that needs it builds.
var program built

type built struct {
	once   sync.Once
	folder string
	err    error
}

func (b *built) path() (string, error) {
	b.once.Do(func() {
		if b.folder, b.err = os.MkdirTemp("", "lockkeeper-suite-"); b.err != nil {
			return
		}
		build := exec.Command("go", "build", "-C", "../../..", "-buildvcs=false", "-ldflags=-s", "-o", filepath.Join(b.folder, "lockkeeper"), "./cmd/lockkeeper")
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build lockkeeper: %w: %s", err, out)
		}
	})
	return filepath.Join(b.folder, "lockkeeper"), b.err
}

func (b *built) remove() error { return os.RemoveAll(b.folder) }

// withCommand is onThree for a test that runs the command. A build can take longer than the test may.
func withCommand(tb testing.TB) *env {
	tb.Helper()
	_, err := program.path()
	require.NoError(tb, err)
	return onThree(tb)
}

// servers returns the connect string of the ensemble.
func (s *env) servers() string { return strings.Join(s.ensemble.Addrs(), ",") }

// lockkeeper returns the command, without servers. It is killed when the test ends.
func (s *env) lockkeeper(args ...string) *exec.Cmd { s.T.Helper(); return s.until(s.Ctx, args...) }

// until returns the command, without servers. It is killed when ctx ends.
func (s *env) until(ctx context.Context, args ...string) *exec.Cmd {
	s.T.Helper()
	file, err := program.path()
	require.NoError(s.T, err)
	cmd := exec.CommandContext(ctx, file, args...)
	cmd.Env = append(os.Environ(), "LOCKKEEPER_SERVERS=", "LOCKKEEPER_URL=", "PATH="+filepath.Dir(file)+":"+os.Getenv("PATH"))
	return cmd
}

// launch starts the command in the background. It is killed when the test ends.
func (s *env) launch(args ...string) *child.Process {
	s.T.Helper()
	cmd := s.lockkeeper(args...)
	p, err := child.Start(s.T, cmd)
	require.NoError(s.T, err)
	return p
}

// on returns arguments with the servers of the ensemble behind the name of the command.
func (s *env) on(args ...string) []string {
	return append([]string{args[0], "--servers", s.servers()}, args[1:]...)
}

// readJSON runs a command that prints JSON, and decodes that.
func (s *env) readJSON(into any, args ...string) {
	s.T.Helper()
	out, err := s.lockkeeper(s.on(append(args, "--json")...)...).Output()
	require.NoError(s.T, err, "%q", args)
	require.NoError(s.T, json.Unmarshal(out, into), "%s", out)
}

// line waits until a command has printed a line with one of the prefixes, and returns it.
func (s *env) line(p *child.Process, prefixes ...string) string {
	s.T.Helper()
	line, err := p.Await(s.Ctx, prefixes...)
	require.NoError(s.T, err, p.Output())
	return line
}

// status waits until a command has ended, and returns its exit status.
func (s *env) status(p *child.Process) int {
	s.T.Helper()
	err := p.Wait()
	exit := new(exec.ExitError)
	if !errors.As(err, &exit) {
		require.NoError(s.T, err, p.Output())
		return 0
	}
	return exit.ExitCode()
}

// A shownContender is a contender as ls, show and watch print it in JSON.
type shownContender struct {
	Owner, Kind, Session string
	Token                fencing.Token
	TTLSeconds           float64
	Expires              time.Time
}

// A shown is what `lockkeeper show --json` prints.
type shown struct {
	Path   string
	Holder *shownContender
	Queue  []shownContender // waiters
}

// A site is a place at which `lockkeeper run` gets a lock: the ensemble, or a lock service on it.
type site struct {
	name string
	args []string // of run
	path string   // in LOCKKEEPER_PATH, and of the lock for run
	node string   // of the lock, below the test's root
}

// sites returns both places, for one lock each.
func (s *env) sites() []site {
	s.T.Helper()
	locks := s.service()
	return []site{
		{"servers", []string{"--servers", s.servers(), "--namespace", s.Root}, "/ledger", "ledger"},
		{"service", locks.start().access(), "team/orders", orders},
	}
}

// run starts `lockkeeper run` at a site.
func (s *env) run(at site, args ...string) *child.Process {
	s.T.Helper()
	return s.launch(append(append([]string{"run"}, at.args...), args...)...)
}

// stubborn is a command that ignores SIGTERM, as its own child does. Each prints "parent" or "child" and the time, again and
// again, but not for ever: nothing else ends them if the test fails. The pauses leave the processors to other tests, and the last
// process ends up to 10 ms after the last row.
var stubborn = []string{"--", "sh", "-c", `trap '' TERM
sh -c 'for i in $(seq 20000); do date +"child %s%N"; sleep 0.01; done' & for i in $(seq 20000); do date +"parent %s%N"; sleep 0.01; done`}

// lastPrinted returns when a stubborn command last printed, its child included.
func (s *env) lastPrinted(p *child.Process) time.Time {
	s.T.Helper()
	last := int64(0)
	writers := map[string]bool{}
	for row := range strings.Lines(p.Output()) {
		var writer string
		var at int64
		if n, _ := fmt.Sscanf(row, "%s %d\n", &writer, &at); n == 2 && (writer == "parent" || writer == "child") {
			writers[writer] = true
			last = max(last, at)
		}
	}
	require.Len(s.T, writers, 2, "both processes print")
	return time.Unix(0, last)
}

// interrupt sends SIGTERM.
func (s *env) interrupt(p *child.Process) {
	s.T.Helper()
	require.NoError(s.T, p.Signal(syscall.SIGTERM))
}
