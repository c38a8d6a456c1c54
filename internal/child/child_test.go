// SPDX-License-Identifier: Apache-2.0

//go:build unix

package child_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
)

// echo prints each line that it reads, after its task.
var echo = child.New("echo", func(greeting string) error {
	fmt.Println(greeting)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if lines.Text() == "die" {
			child.Die()
		}
		fmt.Println("heard", lines.Text())
	}
	fmt.Fprint(os.Stderr, "incomplete line")
	return nil
})

var failing = child.New("failing", func([]int) error { return errors.New("no success") })

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

// start starts an echo, and waits until it runs.
func start(t *testing.T) *child.Process {
	t.Helper()
	p, err := child.Start(t, echo.Command(t.Context(), "hello"))
	require.NoError(t, err)
	require.Equal(t, "hello", await(t, p))
	return p
}

func await(t *testing.T, p *child.Process, prefixes ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	line, err := p.Await(ctx, prefixes...)
	require.NoError(t, err)
	return line
}

func TestLinesAreAwaitedInAnyOrderAndReturnedOnce(t *testing.T) {
	p := start(t)
	for _, line := range []string{"1", "2", "1"} {
		require.NoError(t, p.Send(line))
	}
	require.Equal(t, "heard 2", await(t, p, "heard 3", "heard 2"))
	require.Equal(t, "heard 1", await(t, p, "heard 1"))
	require.Equal(t, "heard 1", await(t, p))
	_, found := p.Poll("heard")
	require.False(t, found)

	require.NoError(t, p.CloseInput())
	require.Equal(t, "incomplete line", await(t, p, "incomplete"))
	require.NoError(t, p.Wait())
	_, err := p.Await(t.Context())
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "hello\nheard 1\nheard 2\nheard 1\nincomplete line", p.Output())
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	p := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := p.Await(ctx, "never")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestStoppedProcessAnswersAfterItContinues(t *testing.T) {
	p := start(t)
	require.NoError(t, p.Stop())
	require.NoError(t, p.Send("late"))
	state, err := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", fmt.Sprint(p.Pid())).Output()
	require.NoError(t, err)
	require.Equal(t, "T", string(state[:1]))
	_, found := p.Poll()
	require.False(t, found)
	require.NoError(t, p.Continue())
	require.Equal(t, "heard late", await(t, p))
}

func TestEndOfTestKillsItsStoppedProcess(t *testing.T) {
	var p *child.Process
	t.Run("test", func(t *testing.T) {
		p = start(t)
		require.NoError(t, p.Stop())
	})
	require.True(t, child.Killed(p.Wait()))
}

func TestStopOfAnEndedProcessFails(t *testing.T) {
	p := start(t)
	require.NoError(t, p.Send("die"))
	require.True(t, child.Killed(p.Wait()))
	require.Error(t, p.Stop())
	p.Kill()
}

func TestErrorOfRoleIsPrintedWithStatus1(t *testing.T) {
	out, err := failing.Command(t.Context(), nil).CombinedOutput()
	exit := new(exec.ExitError)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Equal(t, "no success\n", string(out))
	require.False(t, child.Killed(err))
}

func TestFailureInAChildProcessIsRequired(t *testing.T) {
	child.RequireFailure(t, "TestInChildProcess", "that fails", "fail")
	for _, task := range []string{"pass", "fail elsewhere", "panic"} {
		recorder := &failureRecorder{TB: t}
		child.RequireFailure(recorder, "TestInChildProcess", "that fails", task)
		require.True(t, recorder.failed, task)
	}
	out, err := child.Test(t, "TestInChildProcess", "", "fail elsewhere")
	require.Error(t, err)
	require.Contains(t, out, "--- FAIL: TestInChildProcess/elsewhere (")
}

// This test fails by design: TestFailureInAChildProcessIsRequired runs it.
func TestInChildProcess(t *testing.T) {
	var task string
	child.Task(t, &task)
	t.Run("that fails", func(t *testing.T) {
		if task == "panic" {
			panic("requested")
		}
		require.NotEqual(t, "fail", task)
	})
	t.Run("elsewhere", func(t *testing.T) { require.NotEqual(t, "fail elsewhere", task) })
}

// A failureRecorder is a test that only records its failure.
type failureRecorder struct {
	testing.TB
	failed bool
}

func (r *failureRecorder) Errorf(string, ...any) { r.failed = true }
