// SPDX-License-Identifier: Apache-2.0

// Package child runs a test binary again as a child process, which its test can stop, continue and kill.
//
// A [Role] is the main function of such a process. A package that has roles begins its TestMain with [Main]:
//
//	var writer = child.New("writer", func(path string) error { … })
//
//	func TestMain(m *testing.M) {
//		child.Main()
//		os.Exit(m.Run())
//	}
//
//	func TestKilledWriterLeavesNoFile(t *testing.T) {
//		p, err := child.Start(t, writer.Command(t.Context(), path))
//		…
//		_, err = p.Await(t.Context(), "opened")
//		p.Kill()
//	}
//
// [Start] takes any command, so that programs of others are driven in the same way. [Test] runs a test that must fail.
package child

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

// The environment of a child process: its role, and its task in JSON. [Test] has the role "test".
const (
	roleVariable = "LOCKKEEPER_TEST_CHILD"
	taskVariable = "LOCKKEEPER_TEST_CHILD_TASK"
)

var (
	roles = map[string]func(task []byte) error{}
	ready bool // Main was called: a child process does not run the tests again
)

// A Role is what a child process does instead of running the tests. T is its task.
type Role[T any] struct{ name string }

// New registers a role. It is called in the initialization of a package variable.
func New[T any](name string, main func(task T) error) Role[T] {
	roles[name] = func(text []byte) error {
		var task T
		if err := json.Unmarshal(text, &task); err != nil {
			return fmt.Errorf("decode the task of %q: %w", name, err)
		}
		return main(task)
	}
	return Role[T]{name}
}

// Main runs the role of this process and exits, with status 1 after an error, which it prints. It returns if this process
// has no role.
func Main() {
	ready = true
	name := os.Getenv(roleVariable)
	if name == "" || name == testRole {
		return
	}
	main, known := roles[name]
	err := fmt.Errorf("child: no role %q", name)
	if known {
		err = main([]byte(os.Getenv(taskVariable)))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Command returns a command that starts a process in the role. The end of ctx kills the process. It panics if TestMain has
// not called Main, or if the task has no JSON form.
func (r Role[T]) Command(ctx context.Context, task T) *exec.Cmd {
	if !ready {
		panic("child: TestMain does not call child.Main: the child process would run the tests")
	}
	return command(ctx, r.name, task)
}

func command(ctx context.Context, role string, task any, args ...string) *exec.Cmd {
	text, err := json.Marshal(task)
	if err != nil {
		panic(fmt.Errorf("child: encode the task of %q: %w", role, err))
	}
	self, err := os.Executable()
	if err != nil {
		panic(fmt.Errorf("child: find the test binary: %w", err))
	}
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), roleVariable+"="+role, taskVariable+"="+string(text))
	return cmd
}
