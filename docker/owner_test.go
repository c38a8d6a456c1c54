// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyEndedProcessesOfThisMachineLeaveOrphans(t *testing.T) {
	require.False(t, orphaned(self().String()))
	require.Equal(t, self().process(), ownerOf(folderPrefix+self().process()+"-123", folderPrefix))

	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	other := owner{host: self().host, pid: cmd.Process.Pid, began: processStart(cmd.Process.Pid)}
	require.False(t, orphaned(other.String()))
	reused := other
	reused.began += "0"
	if other.began != "" {
		require.True(t, orphaned(reused.String()), "another process had this id")
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	require.True(t, orphaned(other.String()))
	require.True(t, ended(other.process()))
	other.host = "elsewhere"
	require.False(t, orphaned(other.String()))
	require.False(t, ended(other.process()), "a container that shares a folder has other processes")
	for _, label := range []string{"", "x", self().host + "/", self().host + "/x-1", self().host + "/7"} {
		require.False(t, orphaned(label), label)
	}
}
