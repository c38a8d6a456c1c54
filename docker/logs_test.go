// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker/txnlog"
)

// transactions are those that a server has logged: type and first path.
func transactions(tb testing.TB, dir string) []string {
	tb.Helper()
	txns, err := txnlog.ReadDir(dir)
	require.NoError(tb, err)
	var lines []string
	for _, t := range txns {
		for _, part := range t.All() {
			lines = append(lines, fmt.Sprint(part.Type, part.Paths))
		}
	}
	return lines
}

// create makes an ephemeral sequential node, open to all.
func (s *session) create(tb testing.TB, path string) error {
	tb.Helper()
	text := func(b []byte, s string) []byte {
		return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
	}
	b := []byte{0, 0, 0, 1, 0, 0, 0, 1} // xid, create
	b = text(b, path)
	b = text(b, "")
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 31) // one ACL, all permissions
	b = text(text(b, "world"), "anyone")
	answer, err := s.ask(tb, append(b, 0, 0, 0, 3))
	if err != nil {
		return err
	}
	if code := int32(binary.BigEndian.Uint32(answer[12:])); code != 0 {
		return fmt.Errorf("server says %d", code)
	}
	return nil
}

func TestLogsOfAServerAreSavedWhetherItRunsOrNot(t *testing.T) {
	onEach(t, Options{}, func(t trial, e *Ensemble) {
		ctx := bounded(t)
		server := e.Servers()[0]
		require.NoError(t, dialSession(t, server.Addr()).create(t, "/a-"))
		running, killed := t.TempDir(), t.TempDir()
		require.NoError(t, server.SaveLogs(ctx, running))
		require.NoError(t, server.Kill(ctx))
		require.NoError(t, server.SaveLogs(ctx, killed))
		for _, dir := range []string{running, killed} {
			require.Contains(t, transactions(t, dir), fmt.Sprint(txnlog.Create, []string{"/a-0000000000"}))
			said, err := os.ReadFile(filepath.Join(dir, "server.log"))
			require.NoError(t, err)
			require.Contains(t, string(said), "binding to port")
		}
	})
}
