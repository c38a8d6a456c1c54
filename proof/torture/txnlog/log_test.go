// SPDX-License-Identifier: Apache-2.0

package txnlog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/txnlog"
)

// kept is the log of a server of version 3.8 that executed every kind of transaction read here.
func kept(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/log.1")
	require.NoError(t, err)
	return b
}

func TestKeptLogIsReadCompletely(t *testing.T) {
	txns, err := txnlog.ReadDir("testdata")
	require.NoError(t, err)
	type line struct {
		Type      txnlog.Type
		Path      string
		Ephemeral bool
		Asked     bool
	}
	var lines []line
	for i, txn := range txns {
		require.Equal(t, int64(i+1), txn.Zxid)
		require.WithinRange(t, txn.Time, txns[0].Time, txns[0].Time.Add(10*time.Second))
		for _, part := range txn.All() {
			l := line{part.Type, "", part.Ephemeral, txn.Request != 0}
			if len(part.Paths) > 0 {
				l.Path = part.Paths[0]
			}
			lines = append(lines, l)
		}
	}
	require.Equal(t, []line{
		{txnlog.CreateSession, "", false, false},
		{txnlog.CreateContainer, "/c", false, true},
		{txnlog.Create, "/p", false, true},
		{txnlog.Create, "/c/a-0000000000", true, true}, // the two of a transaction
		{txnlog.SetData, "/p", false, true},
		{txnlog.Error, "", false, true}, // a rejected transaction
		{txnlog.Create, "/p/e", true, true},
		{txnlog.Delete, "/p/e", false, true},
		{txnlog.Error, "", false, true},
		{txnlog.SetACL, "/p", false, true},
		{txnlog.Create, "/p/f", true, true},
		{txnlog.CreateSession, "", false, false},
		{txnlog.Create, "/p/g", true, true},
		{txnlog.CloseSession, "/c/a-0000000000", false, true},
		{txnlog.CloseSession, "/p/g", false, false}, // it timed out
		{txnlog.DeleteContainer, "/c", false, false},
	}, lines)
	require.ElementsMatch(t, []string{"/p/f", "/c/a-0000000000"}, txns[12].Paths)
	require.Equal(t, 2*time.Second, txns[0].Timeout)
	require.Equal(t, txns[0].Session, txns[12].Session)
}

func TestLogEndsWhereItIsTruncatedOrCorrupt(t *testing.T) {
	whole := kept(t)
	all, err := txnlog.Read(bytes.NewReader(whole))
	require.NoError(t, err)
	for cut := range len(whole) {
		txns, err := txnlog.Read(bytes.NewReader(whole[:cut]))
		require.NoError(t, err, "truncated at %d", cut)
		require.Equal(t, all[:len(txns)], append([]txnlog.Txn{}, txns...), "truncated at %d", cut)
	}
	// A changed byte in the last transaction: its checksum no longer matches.
	spoilt := bytes.Clone(whole)
	spoilt[bytes.LastIndexByte(spoilt, 'B')-3]++
	txns, err := txnlog.Read(bytes.NewReader(spoilt))
	require.NoError(t, err)
	require.Equal(t, all[:len(all)-1], txns)
}

func TestFileThatIsNoLogIsRejected(t *testing.T) {
	_, err := txnlog.Read(bytes.NewReader([]byte("a file that is something else")))
	require.ErrorContains(t, err, "unknown file header")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log.txt"), nil, 0o600))
	_, err = txnlog.ReadDir(dir)
	require.ErrorContains(t, err, "no zxid in its name")
}

// log returns transactions with these zxids, given as epochs and counts.
func log(zxids ...[2]int64) []txnlog.Txn {
	var txns []txnlog.Txn
	for _, z := range zxids {
		txns = append(txns, txnlog.Txn{Zxid: z[0]<<32 | z[1]})
	}
	return txns
}

func TestOnlyCommittedTransactionsCount(t *testing.T) {
	type z = [2]int64
	for name, c := range map[string]struct {
		logs      [][]txnlog.Txn
		agreed    []txnlog.Txn
		dropped   int
		snapshots [][]int64
		led       [][]int64
	}{
		"all have all": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}), log(z{1, 1}, z{1, 2}), log(z{1, 1}, z{1, 2})},
			log(z{1, 1}, z{1, 2}), 0, nil, nil,
		},
		"the leader is ahead": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}, z{1, 3}), log(z{1, 1}, z{1, 2}), log(z{1, 1})},
			log(z{1, 1}, z{1, 2}), 1, nil, nil,
		},
		"an isolated leader keeps its proposals": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}, z{2, 5}), log(z{1, 1}, z{2, 1}, z{2, 5}), log(z{1, 1}, z{2, 1}, z{2, 5})},
			log(z{1, 1}, z{2, 1}, z{2, 5}), 1, nil, nil,
		},
		"what only the next leader had counts, though the others got it in a snapshot": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}, z{1, 3}, z{2, 1}), log(z{1, 1}, z{1, 2}, z{2, 1}), log(z{1, 1}, z{2, 1})},
			log(z{1, 1}, z{1, 2}, z{1, 3}, z{2, 1}), 0, nil, nil,
		},
		"a time of which nothing came": {
			[][]txnlog.Txn{log(z{1, 1}, z{2, 1}), log(z{1, 1}, z{3, 1}), log(z{1, 1}, z{3, 1})},
			log(z{1, 1}, z{3, 1}), 1, nil, nil,
		},
		"a server that was away": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 9}), log(z{1, 1}, z{1, 2}, z{1, 9}), log(z{1, 1}, z{1, 2}, z{1, 9})},
			log(z{1, 1}, z{1, 2}, z{1, 9}), 0, nil, nil,
		},
		"logged again among later ones": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 3}, z{1, 2}, z{1, 2}), log(z{1, 1}, z{1, 2}), log(z{1, 1}, z{1, 2})},
			log(z{1, 1}, z{1, 2}), 1, nil, nil,
		},
		"a transaction that was sent in a snapshot counts, though no other server has logged it": {
			[][]txnlog.Txn{log(z{1, 1}, z{3, 1}), log(z{1, 1}, z{1, 2}, z{3, 1}), log(z{1, 1}, z{1, 2}, z{1, 3}, z{2, 1})},
			log(z{1, 1}, z{1, 2}, z{1, 3}, z{3, 1}), 1,
			[][]int64{{1<<32 + 3, 3 << 32}, {3 << 32}, nil},
			nil,
		},
		"what one had to leave when it was handed a snapshot does not count, though it stayed in its log": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}, z{1, 3}, z{2, 1}), log(z{1, 1}, z{1, 2}, z{2, 1}), log(z{1, 1}, z{2, 1})},
			log(z{1, 1}, z{1, 2}, z{2, 1}), 1,
			[][]int64{{2 << 32}, {1<<32 + 2}, {1<<32 + 2}},
			[][]int64{{1}, {2}, nil},
		},
		"who led a time in which nothing was carried out has handed on what was before": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}, z{3, 1}), log(z{1, 1}, z{3, 1}), log(z{1, 1})},
			log(z{1, 1}, z{1, 2}, z{3, 1}), 0,
			[][]int64{nil, {2 << 32}, {2 << 32}},
			[][]int64{{2}, {3}, nil},
		},
		"so has one whose leader is unknown": {
			[][]txnlog.Txn{log(z{1, 1}, z{1, 2}, z{3, 1}), log(z{1, 1}, z{3, 1}), log(z{1, 1})},
			log(z{1, 1}, z{1, 2}, z{3, 1}), 0,
			[][]int64{nil, {2 << 32}, {2 << 32}},
			[][]int64{nil, {3}, nil},
		},
		"nothing": {[][]txnlog.Txn{nil, nil, nil}, nil, 0, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var servers []txnlog.Server
			for i, txns := range c.logs {
				s := txnlog.Server{Txns: txns}
				if c.snapshots != nil {
					s.Snapshots = c.snapshots[i]
				}
				if c.led != nil {
					s.Led = c.led[i]
				}
				servers = append(servers, s)
			}
			agreed, dropped := txnlog.Agreed(servers)
			require.Equal(t, c.agreed, agreed)
			require.Equal(t, c.dropped, dropped)
		})
	}
}

func TestRejectedMultiChangesNothing(t *testing.T) {
	made, refused := txnlog.Part{Type: txnlog.Create, Paths: []string{"/a"}}, txnlog.Part{Type: txnlog.Error}
	multi := func(parts ...txnlog.Part) []txnlog.Part {
		return (&txnlog.Txn{Type: txnlog.Multi, Parts: parts}).All()
	}
	require.Equal(t, []txnlog.Part{made, made}, multi(made, made))
	require.Equal(t, []txnlog.Part{refused}, multi(made, refused))
	require.Equal(t, []txnlog.Part{made}, (&txnlog.Txn{Type: made.Type, Part: made}).All())
}

func TestSnapshotsAreFoundByNameAndEpochsInThePrintedLog(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"snapshot.a00000002", "snapshot.b00000001.tmp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	s, err := txnlog.ReadServer(dir)
	require.NoError(t, err)
	require.Equal(t, txnlog.Server{Snapshots: []int64{0xa00000002}}, s)
	const printed = `10:00:00,795 [QuorumPeer[myid=3](plain=0.0.0.0:2181)(secure=disabled)] INFO org.apache.zookeeper.server.quorum.Leader - Have quorum of supporters, sids: [[2, 3]]; starting up and setting last processed zxid: 0x2d00000000
10:00:12,000 [main] INFO Have quorum of supporters, sids: [[2, 3]]; starting up and setting last processed zxid: 0x30`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.log"), []byte(printed+"00000000"), 0o600))
	s, err = txnlog.ReadServer(dir)
	require.NoError(t, err)
	require.Equal(t, []int64{0x2d, 0x30}, s.Led)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "snapshot.x"), nil, 0o600))
	_, err = txnlog.ReadServer(dir)
	require.ErrorContains(t, err, "no zxid in its name")
}
