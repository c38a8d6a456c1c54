// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"encoding/binary"
	"fmt"
	"hash/adler32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A transaction is a whole record of a transaction log, as the server wrote it.
type transaction string

// creates reports whether t is the create of a path.
func (t transaction) creates(path string) bool {
	const kind, body = 28, 32 // after session, xid, zxid and time
	encoded := append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...)
	return len(t) >= body && binary.BigEndian.Uint32([]byte(t[kind:])) == 1 && strings.HasPrefix(string(t[body:]), string(encoded))
}

// transactions returns the records of the transaction logs in dir. A log ends at the first record that is not whole.
func transactions(tb testing.TB, dir string) []transaction {
	tb.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "log.*"))
	require.NoError(tb, err)
	var all []transaction
	for _, name := range names {
		b, err := os.ReadFile(name)
		require.NoError(tb, err)
		if len(b) < 16 {
			continue // the server was killed right after it had created the file
		}
		require.Equal(tb, "ZKLG\x00\x00\x00\x02", string(b[:8]), name)
		for b = b[16:]; len(b) >= 12; {
			sum, size := binary.BigEndian.Uint64(b), int(binary.BigEndian.Uint32(b[8:]))
			b = b[12:]
			if size == 0 || size >= len(b) || b[size] != 'B' || uint64(adler32.Checksum(b[:size])) != sum {
				break
			}
			all = append(all, transaction(b[:size]))
			b = b[size+1:]
		}
	}
	return all
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
	answer, err := s.ask(tb, append(b, 0, 0, 0, 3), answerTime)
	if err != nil {
		return err
	}
	if code := int32(binary.BigEndian.Uint32(answer[12:])); code != 0 {
		return fmt.Errorf("server answered error %d", code)
	}
	return nil
}

func logsAreSavedWhetherTheServerRunsOrNot(t trial, e *Ensemble) {
	ctx := bounded(t)
	server := e.Servers()[0]
	require.NoError(t, dialSession(t, server.Addr()).create(t, "/a-"))
	running, killed := t.TempDir(), t.TempDir()
	require.NoError(t, server.SaveLogs(ctx, running))
	require.NoError(t, server.Kill(ctx))
	require.NoError(t, server.SaveLogs(ctx, killed))
	for _, dir := range []string{running, killed} {
		require.True(t, slices.ContainsFunc(transactions(t, dir), func(txn transaction) bool { return txn.creates("/a-0000000000") }),
			"no transaction creates the node")
		said, err := os.ReadFile(filepath.Join(dir, "server.log"))
		require.NoError(t, err)
		require.Contains(t, string(said), "binding to port")
	}
	require.NoError(t, server.Start(ctx))
}
