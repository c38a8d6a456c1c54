// SPDX-License-Identifier: Apache-2.0

//go:build linux

package stores_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// parent starts a server, prints its address, and waits to be killed.
var parent = child.New("parent", func(struct{}) error {
	s, err := stores.RunRedis(context.Background(), nil)
	if err != nil {
		return err
	}
	fmt.Println(s.Addr)
	select {}
})

func TestMain(m *testing.M) {
	child.Main()
	goleak.VerifyTestMain(m)
}

func TestServerEndsWithTheProcessThatStartedItAndItsDataWithTheNextStart(t *testing.T) {
	stores.Redis(t, nil) // or the test is not run
	t.Setenv("TMPDIR", open(t))
	process, err := child.Start(t, parent.Command(t.Context(), struct{}{}))
	require.NoError(t, err)
	addr, err := process.Await(t.Context(), "127.")
	require.NoError(t, err)
	s := &stores.Server{Addr: addr}
	says(t, s, "PING", "+PONG")
	process.Kill()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}, time.Minute, time.Millisecond)

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
	require.Len(t, left(), 2, "the groups of living processes")
	require.NotContains(t, left(), orphan[0])
}
