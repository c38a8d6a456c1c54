// SPDX-License-Identifier: Apache-2.0

//go:build unix

package zktest_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestFrozenProcessDoesNothingUntilItIsThawed(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	require.NoError(t, zktest.Freeze(cmd.Process))
	_, err = fmt.Fprintln(in, "written while it was frozen")
	require.NoError(t, err)
	select {
	case line := <-lines:
		t.Fatalf("a frozen process wrote %q", line)
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, zktest.Thaw(cmd.Process))
	require.Equal(t, "written while it was frozen", <-lines)
	require.NoError(t, in.Close())
	_, more := <-lines
	require.False(t, more)
	require.NoError(t, cmd.Wait())
	require.Error(t, zktest.Freeze(cmd.Process), "it has ended")
}
