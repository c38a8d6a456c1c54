// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// leavings are what tests leave open, by name.
var leavings = map[string]func() error{
	"nothing": func() error {
		_, err := net.Dial("tcp", os.Getenv(zktest.ServersVariable))
		return err
	},
	"ensemble": func() error { _, err := zktest.Run(context.Background(), nil); return err },
	"connection": func() error {
		_, _, err := zk.Connect([]string{os.Getenv(zktest.ServersVariable)}, time.Second, zk.WithLogInfo(false))
		return err
	},
	"client": func() error {
		_, err := recipes.Connect(context.Background(), []string{os.Getenv(zktest.ServersVariable)}, nil)
		return err
	},
	"failure": func() error { return fmt.Errorf("a test fails") },
}

// leaving runs MainWithServers with tests that leave something open.
var leaving = child.New("leaving", func(name string) error {
	os.Exit(zktest.MainWithServers(run(leavings[name])))
	return nil
})

// A run is the tests of a package.
type run func() error

func (r run) Run() int {
	if err := r(); err != nil {
		fmt.Println(err)
		return 7
	}
	return 0
}

func TestRunThatLeavesAnythingOpenFails(t *testing.T) {
	t.Setenv(zktest.ServersVariable, "")
	for name, want := range map[string]struct {
		code   int
		output string
	}{
		"nothing":    {0, ""},
		"ensemble":   {1, "zktest.(*Ensemble)"},
		"connection": {1, "zk.(*Conn)"},
		"client":     {1, "lockkeeper/internal/client"},
		"failure":    {7, "a test fails"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := leaving.Command(t.Context(), name)
			out, err := cmd.CombinedOutput()
			require.Equal(t, want.code, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
			require.Contains(t, string(out), want.output)
		})
	}
}

func TestGoroutinesThatHaveNotBegunAreFound(t *testing.T) {
	cmd := leaving.Command(t.Context(), "ensemble")
	// One processor, and no other ensemble to close: the new one's goroutines wait when Main looks.
	cmd.Env = append(cmd.Environ(), "GOMAXPROCS=1", zktest.ServersVariable+"=unused:2181")
	out, err := cmd.CombinedOutput()
	require.Equal(t, 1, cmd.ProcessState.ExitCode(), "%v\n%s", err, out)
	require.Contains(t, string(out), "zktest.(*Ensemble)")
}

func TestServersOfTheEnvironmentAreUsed(t *testing.T) {
	t.Setenv(zktest.ServersVariable, "zk1:2181,zk2:2181")
	zktest.MainWithServers(run(func() error {
		require.Equal(t, "zk1:2181,zk2:2181", os.Getenv(zktest.ServersVariable))
		return fmt.Errorf("not checked for what is open")
	}))
}
