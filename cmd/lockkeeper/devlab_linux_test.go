// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// runs reports whether a process runs or is stopped. One that has ended may not be waited for.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestDevLabServesPageAfterTheReadersOfItsOutputHaveGone(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.2:0") // on this address, nothing else takes the port
	require.NoError(t, err)
	page := "http://" + free.Addr().String() + "/"
	require.NoError(t, free.Close())
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	p := newCommand(t, "dev", "--listen", "127.0.0.1:0", "--lab", "--lab-listen", free.Addr().String())
	p.cmd.Stdout, p.cmd.Stderr = writer, writer
	p.start()
	require.NoError(t, writer.Close())
	lines := bufio.NewReader(reader)
	for named := false; !named; { // after the warning
		row, err := lines.ReadString('\n')
		require.NoError(t, err)
		named = strings.HasPrefix(row, "export LOCKKEEPER_SERVERS=")
	}
	require.NoError(t, reader.Close())
	require.Eventually(t, func() bool {
		res, err := http.Get(page)
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusOK
	}, 30*time.Second, 5*time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, statusOK, p.status())
}

// An interrupt lets it end its contenders. Nothing lets a killed laboratory do so.
func TestPausedContenderEndsWithKilledLaboratory(t *testing.T) {
	t.Parallel()
	p := newCommand(t, "dev", "--listen", "127.0.0.1:0", "--lab", "--lab-listen", "127.0.0.1:0")
	p.start()
	p.awaitOutput("# lock service: ")
	page := regexp.MustCompile(`# laboratory: (\S+)`).FindStringSubmatch(p.stdout.String())[1]
	pids := contenders(t, page)
	for _, pid := range pids {
		require.True(t, runs(pid))
	}
	require.Eventually(t, func() bool {
		res, err := http.Post(page+"api/actions", "", strings.NewReader(`{"do": "pause", "who": "b"}`))
		return err == nil && res.Body.Close() == nil && res.StatusCode == http.StatusNoContent
	}, time.Minute, 10*time.Millisecond)
	require.NoError(t, p.cmd.Process.Kill())
	p.status()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return !runs(pid) }, time.Minute, 10*time.Millisecond, pid)
	}
}

// contenders returns the processes of the contenders.
func contenders(t *testing.T, page string) (pids []string) {
	t.Helper()
	res, err := http.Get(page + "api/events")
	require.NoError(t, err)
	defer func() { require.NoError(t, res.Body.Close()) }()
	text := make([]byte, 0, 1<<16)
	for len(pids) < 3 {
		n, err := res.Body.Read(text[len(text):cap(text)])
		require.NoError(t, err)
		text = text[:len(text)+n]
		pids = nil
		for _, found := range regexp.MustCompile(`"[abc]\.pid":(\d+)`).FindAllSubmatch(text, -1) {
			pids = append(pids, string(found[1]))
		}
	}
	return pids
}
