// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filefence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

// The roles of a child process.
const (
	dieInTheFunction = "die in the function"
	dieBetweenSteps  = "die between steps" // after the first Steps steps of storing the token
	count            = "count"             // increment the number in the resource's file, Steps times
	leaveChild       = "leave a child"     // die in the function, after it has started an unfenced process
)

type task struct {
	Role, Dir, Resource, Value string
	Token                      fencing.Token
	Steps                      int
}

var (
	process  = child.New("filefence", task.run)
	unfenced = child.New("unfenced", task.writeUnfenced) // writes Value to the resource's file when the standard input ends
)

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

// dies runs the task and requires that its process was ended by kill -9.
func (c task) dies(t *testing.T) {
	t.Helper()
	out, err := process.Command(t.Context(), c).CombinedOutput()
	require.True(t, child.Killed(err), "%v\n%s", err, out)
}

func (c task) run() error {
	g, err := newGuarded(c.Dir, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	switch c.Role {
	case dieInTheFunction:
		return g.guard.Do(ctx, c.Resource, c.Token, func(*os.File) error {
			child.Die()
			return nil
		})
	case dieBetweenSteps:
		r := g.guard.record(c.Resource)
		if _, err := r.lock(ctx, withoutToken); err != nil {
			return err
		}
		for _, step := range r.steps(state{newest: c.Token})[:c.Steps] {
			if err := step(); err != nil {
				return err
			}
		}
		child.Die()
	case count:
		for range c.Steps {
			if err := g.guard.Do(ctx, c.Resource, c.Token, func(*os.File) error { return increase(g.file(c.Resource)) }); err != nil {
				return err
			}
		}
		return nil
	case leaveChild:
		return g.guard.Do(ctx, c.Resource, c.Token, c.leaveChild)
	}
	return fmt.Errorf("unknown role %q", c.Role)
}

// leaveChild passes standard input and output on to the child.
func (c task) leaveChild(lock *os.File) error {
	cmd := unfenced.Command(context.Background(), c)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{lock}
	if err := cmd.Start(); err != nil {
		return err
	}
	child.Die()
	return nil
}

func (c task) writeUnfenced() error {
	g, err := newGuarded(c.Dir, nil)
	if err != nil {
		return err
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	return os.WriteFile(g.file(c.Resource), []byte(c.Value), 0o600)
}

// increase loses an increment as soon as two calls overlap.
func increase(name string) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(content))
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(strconv.Itoa(n+1)), 0o600)
}

func TestKillBetweenAnyStepsAdmitsNoOlderToken(t *testing.T) {
	steps := len((&Guard{}).record("ledger").steps(state{}))
	for done := range steps + 1 {
		t.Run(fmt.Sprintf("after %d of %d", done, steps), func(t *testing.T) {
			dir := t.TempDir()
			g := openGuarded(t, dir)
			require.NoError(t, g.Write(t.Context(), "ledger", 5, "five"))
			task{Role: dieBetweenSteps, Dir: dir, Resource: "ledger", Token: 9, Steps: done}.dies(t)

			newest, err := g.guard.Newest(t.Context(), "ledger")
			require.NoError(t, err, "the file is whole")
			require.Contains(t, []fencing.Token{5, 9}, newest)
			require.ErrorIs(t, g.Write(t.Context(), "ledger", 4, "stale"), fencing.ErrStale)
			value, err := g.Value(t.Context(), "ledger")
			require.NoError(t, err)
			require.Equal(t, "five", value)

			require.NoError(t, g.Write(t.Context(), "ledger", 9, "nine"))
			require.ErrorIs(t, g.Write(t.Context(), "ledger", 5, "stale"), fencing.ErrStale)
		})
	}
}

func TestChildThatOutlivesItsHolderKeepsLock(t *testing.T) {
	dir := t.TempDir()
	g := openGuarded(t, dir)
	stdin, end, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = end.Close() }() // so that the child always ends
	ended, stdout, err := os.Pipe()
	require.NoError(t, err)
	cmd := process.Command(t.Context(), task{Role: leaveChild, Dir: dir, Resource: "ledger", Token: 7, Value: "stale"})
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, os.Stderr
	require.NoError(t, cmd.Start())
	require.NoError(t, errors.Join(stdin.Close(), stdout.Close()))
	require.Error(t, cmd.Wait(), "the holder is killed")

	_, err = g.guard.record("ledger").tryLock(withoutToken)
	require.ErrorIs(t, err, syscall.EWOULDBLOCK, "the child of the killed holder can still write")
	require.NoError(t, end.Close())
	require.NoError(t, g.Write(t.Context(), "ledger", 8, "eight"))
	_, err = io.ReadAll(ended)
	require.NoError(t, err, "the child has ended")
	value, err := g.Value(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "eight", value)
}

func TestTornTemporaryFileIsOverwritten(t *testing.T) {
	g := openGuarded(t, t.TempDir())
	require.NoError(t, g.Write(t.Context(), "ledger", 5, "five"))
	r := g.guard.record("ledger")
	require.NoError(t, os.WriteFile(r.temp, []byte(r.encode(state{newest: 9})[:20]), 0o600))
	require.ErrorIs(t, g.Write(t.Context(), "ledger", 4, "stale"), fencing.ErrStale)
	require.NoError(t, g.Write(t.Context(), "ledger", 9, "nine"))
}

func TestFunctionsOfProcessesDoNotOverlap(t *testing.T) {
	const processes, turns = 4, 25
	dir := t.TempDir()
	g := openGuarded(t, dir)
	require.NoError(t, g.Write(t.Context(), "ledger", 7, "0"))
	var running []*exec.Cmd
	for range processes {
		cmd := process.Command(t.Context(), task{Role: count, Dir: dir, Resource: "ledger", Token: 7, Steps: turns})
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		running = append(running, cmd)
	}
	for _, cmd := range running {
		require.NoError(t, cmd.Wait())
	}
	value, err := g.Value(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(processes*turns), value)
}

func TestNewerTokenOfAnotherProcessShutsOutOlderOnes(t *testing.T) {
	dir := t.TempDir()
	g := openGuarded(t, dir)
	require.NoError(t, g.Write(t.Context(), "ledger", 7, "0"))
	out, err := process.Command(t.Context(), task{Role: count, Dir: dir, Resource: "ledger", Token: 8, Steps: 1}).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.ErrorIs(t, g.Write(t.Context(), "ledger", 7, "stale"), fencing.ErrStale)
	files, err := filepath.Glob(filepath.Join(g.guard.dir, "*.new"))
	require.NoError(t, err)
	require.Empty(t, files, "the rename leaves no temporary file")
}
