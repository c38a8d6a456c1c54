// SPDX-License-Identifier: Apache-2.0

package child

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

const testRole = "test"

// Test runs one subtest of a test in a child process, or the whole test if property is empty. It returns the output, and
// the error of [exec.Cmd.Wait], which is nil if the test passed. The test finds its task with [Task].
func Test(tb testing.TB, test, property string, task any) (output string, err error) {
	tb.Helper()
	pattern := "^" + test + "$"
	if property != "" {
		pattern += "/^" + underscored(property) + "$"
	}
	out, err := command(tb.Context(), testRole, task, "-test.v", "-test.run="+pattern).CombinedOutput()
	return string(out), err
}

// RequireFailure runs a subtest as [Test] does, and fails tb unless the subtest fails, and without a panic.
func RequireFailure(tb testing.TB, test, property string, task any) {
	tb.Helper()
	out, err := Test(tb, test, property, task)
	switch {
	case !errors.As(err, new(*exec.ExitError)):
		tb.Errorf("%s/%s passed in a child process, or was not run: %v\n%s", test, property, err, out)
	case !strings.Contains(out, "--- FAIL: "+test+"/"+underscored(property)+" ("):
		tb.Errorf("%s failed in a child process, but %q did not:\n%s", test, property, out)
	case strings.Contains(out, "panic:"):
		tb.Errorf("%s/%s panicked in a child process:\n%s", test, property, out)
	}
}

// Task sets task to the task of a test that runs in a child process. It skips the test in any other process.
func Task(tb testing.TB, task any) {
	tb.Helper()
	if os.Getenv(roleVariable) != testRole {
		tb.Skip("other tests run this test, in a child process")
	}
	if err := json.Unmarshal([]byte(os.Getenv(taskVariable)), task); err != nil {
		tb.Fatalf("decode the task of %s: %v", tb.Name(), err)
	}
}

// underscored returns the name of a subtest as package testing writes it.
func underscored(property string) string { return strings.ReplaceAll(property, " ", "_") }
