// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is the child process. childMode selects its behaviour, and it creates childFile at an orderly end.
const (
	childMode = "ZKSERVER_TEST_MODE"
	childFile = "ZKSERVER_TEST_FILE"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childMode) {
	case "":
		os.Exit(m.Run())
	case "serves":
		fmt.Print("output before\nZK_SERVERS=127.0.0.1:2181\noutput after\n")
	case "fails":
		fmt.Println("no engine, no Java")
		os.Exit(3)
	case "ends":
		os.Exit(0)
	case "incomplete line":
		fmt.Print("ZK_SERVERS=127.0.0.1:2181, but the line does not end")
	case "stays":
		fmt.Println("ZK_SERVERS=127.0.0.1:2181")
		<-time.After(time.Hour)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		os.Exit(4)
	}
	if err := os.WriteFile(os.Getenv(childFile), nil, 0o600); err != nil {
		os.Exit(5)
	}
}

// tests is a fake of the tests of a package.
type tests struct {
	ran     bool
	servers string
	code    int
}

func (f *tests) Run() int {
	f.ran, f.servers = true, os.Getenv(Variable)
	return f.code
}

// newChild returns a child with the behaviour of a mode, and the file that it creates at an orderly end.
func newChild(t *testing.T, mode string) (c child, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ended")
	t.Setenv(Variable, "")
	t.Setenv(childMode, mode)
	t.Setenv(childFile, file)
	return child{command: []string{os.Args[0]}, start: time.Minute, stop: time.Minute}, file
}

func TestServersInTheEnvironmentAreUsed(t *testing.T) {
	t.Setenv(Variable, "zk1:2181,zk2:2181")
	m := tests{code: 7}
	require.Equal(t, 7, Main(&m))
	require.Equal(t, "zk1:2181,zk2:2181", m.servers)
}

func TestServerIsStartedForTheTestsAndStoppedAfterThem(t *testing.T) {
	c, file := newChild(t, "serves")
	m := tests{}
	require.Equal(t, 0, run(&m, c))
	require.Equal(t, "127.0.0.1:2181", m.servers)
	require.FileExists(t, file)
}

func TestExitCodeOfTheTestsIsReturned(t *testing.T) {
	c, file := newChild(t, "serves")
	m := tests{code: 2}
	require.Equal(t, 2, run(&m, c))
	require.FileExists(t, file)
}

func TestNoTestRunsWithoutAServer(t *testing.T) {
	for _, mode := range []string{"fails", "ends"} {
		c, _ := newChild(t, mode)
		m := tests{}
		require.Equal(t, 1, run(&m, c), mode)
		require.False(t, m.ran, mode)
	}

	c, _ := newChild(t, "serves")
	c.command = []string{filepath.Join(t.TempDir(), "missing")}
	m := tests{}
	require.Equal(t, 1, run(&m, c))
	require.False(t, m.ran)
}

func TestServerThatIsNotReadyInTimeIsStopped(t *testing.T) {
	c, file := newChild(t, "incomplete line")
	c.start = 100 * time.Millisecond
	m := tests{}
	require.Equal(t, 1, run(&m, c))
	require.False(t, m.ran)
	require.FileExists(t, file, "the child did not end in order")
}

func TestServerThatDoesNotStopIsKilled(t *testing.T) {
	c, _ := newChild(t, "stays")
	c.stop = 100 * time.Millisecond
	_, stop, err := c.serve()
	require.NoError(t, err)
	var exit *exec.ExitError
	require.ErrorAs(t, stop(), &exit)
	require.Equal(t, -1, exit.ExitCode(), "the child must end by a signal")
}

func TestServerThatEndsBadlyFailsTheRun(t *testing.T) {
	c, _ := newChild(t, "serves")
	t.Setenv(childFile, t.TempDir()) // a directory, which the child cannot write
	m := tests{}
	require.Equal(t, 1, run(&m, c))
	require.True(t, m.ran)
}

func TestModuleRootIsFoundFromBelow(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "cmd", "lockkeeper")
	require.NoError(t, os.MkdirAll(below, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600))
	t.Chdir(below)
	found, err := moduleRoot()
	require.NoError(t, err)
	require.Equal(t, root, found)
}
