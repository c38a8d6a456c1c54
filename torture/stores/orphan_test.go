// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stores_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/torture/stores"
)

// parent is the variable that makes a process of this test one that starts a server and is killed.
const parent = "LOCKKEEPER_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parent) != "" {
		s, err := stores.RunRedis(context.Background(), nil)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(s.Addr)
		select {}
	}
	goleak.VerifyTestMain(m)
}

func TestServerEndsWithTheProcessThatStartedItAndItsDataWithTheNextStart(t *testing.T) {
	stores.Redis(t, nil) // or the test is not run
	t.Setenv("TMPDIR", open(t))
	self, err := os.Executable()
	require.NoError(t, err)
	process := exec.CommandContext(t.Context(), self)
	process.Env = append(os.Environ(), parent+"=1")
	out, err := process.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, process.Start())
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	s := &stores.Server{Addr: strings.TrimSpace(addr)}
	says(t, s, "PING", "+PONG")
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, 10*time.Second, time.Millisecond)

	left := func() (names []string) {
		entries, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		return names
	}
	orphan := left()
	require.Len(t, orphan, 1)
	stores.Redis(t, nil)
	stores.Redis(t, nil)
	require.Len(t, left(), 2, "those of the living")
	require.NotContains(t, left(), orphan[0])
}
