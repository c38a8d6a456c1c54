// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// A difference is a permanent one: its name describes it, and reason explains it. A difference with a scenario is
// tested, so that none stays listed after it has disappeared. In the other cases ZooKeeper's behaviour varies.
type difference struct {
	scenario
	reason string
}

var differences = []difference{
	{
		scenario{"A request whose fields cannot be read ends the connection: ZooKeeper answers MarshallingError", unreadable},
		"a client that sends such a request is broken, and its test should fail at that request; the reason is logged",
	},
	{
		scenario{"A client's createSession request is unimplemented: ZooKeeper mistakes it for one of its own and mishandles it", func(s *run) {
			a := s.session("a")
			a.do(rawclient.Raw{Op: wire.OpCreateSession})
		}},
		"servers send it to themselves; no client does",
	},
	{
		scenario{"A check outside a transaction is always answered: ZooKeeper answers only a refused one", func(s *run) {
			a := s.session("a")
			a.do(create("/probe/n", wire.Persistent))
			s.patience = maxWait / 5 // the other server has answered by then
			a.ask(check("/probe/n", 0))
		}},
		"silence is a server bug, and no client sends such a check",
	},
	{
		scenario{name: "Children, ephemeral nodes and identities are listed in sorted order: ZooKeeper lists them in the order of a hash table"},
		"tests need the same order in each run; here, both are compared sorted",
	},
	{
		scenario{name: "The scheme auth in an ACL stands for the identities in the order in which they were added: ZooKeeper uses the order of a hash table"},
		"tests need the same order in each run; here, both are compared sorted",
	},
	{
		scenario{name: "The nodes of a session are deleted in sorted order: ZooKeeper uses the order of a hash table"},
		"tests need the same order in each run; here, the events for them are compared sorted",
	},
	{
		scenario{name: "A request that follows a setACL is checked against the new ACL: ZooKeeper may check it against the old one if both came in one write"},
		"ZooKeeper checks a request before it has applied the earlier ones, and does not record a pending ACL; here, no request follows a setACL in the same write",
	},
	{
		scenario{name: "A connection whose session expires may receive events for its own nodes before it ends: in ZooKeeper it usually ends first"},
		"in ZooKeeper the order is a race between two threads; here, no session watches its own nodes when it expires",
	},
	{
		scenario{name: "The words mntr, srvr, stat and cons report every latency as zero, mntr lacks some keys, and none describes the Java virtual machine"},
		"there is no Java virtual machine, and latency is the test's own; here, keys and their order are compared, not values",
	},
	{
		scenario{name: "With TTL nodes enabled, a negative TTL is refused: it ends the server process of ZooKeeper 3.8.0"},
		"a test must not lose its servers to one request; here, negative TTLs are sent only to servers that refuse all of them",
	},
	{
		scenario{"A transaction with a null path takes a zxid that its answer shows: in ZooKeeper only later answers show it", nullInTransaction},
		"ZooKeeper fails on it after it has taken the zxid, and before it has made a transaction; no client sends one",
	},
	{
		scenario{name: "A persistent watch without a path is refused: in ZooKeeper 3.8.0 no request is answered after the end of a session that has one"},
		"a test must not lose its servers to one request; here, none is sent",
	},
}

// unreadable sends requests that a correct client does not send.
func unreadable(s *run) {
	for i, raw := range []rawclient.Raw{
		{Op: wire.OpCreate, Put: func(w *wire.Writer) { w.Int32(-2) }},
		{Op: wire.OpDelete, Put: func(w *wire.Writer) { w.Int32(0x7fffffff) }},
		{Op: wire.OpGetData, Put: func(w *wire.Writer) { w.Int32(0) }},
	} {
		p := s.session(string(rune('a' + i)))
		p.do(raw)
		p.do(exists(root))
	}
}

func TestDocumentationListsEachDifference(t *testing.T) {
	source, err := os.ReadFile("../../doc.go")
	require.NoError(t, err)
	lines := strings.Split(string(source), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "//"))
	}
	text := strings.Join(lines, " ")
	for _, d := range differences {
		require.Contains(t, text, "- "+d.name+".")
	}
}

func TestEachListedDifferenceExists(t *testing.T) {
	reference, double := both(t)
	for _, d := range differences {
		require.NotEmpty(t, d.reason)
		if d.body == nil {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			want, got := record(t, reference, d.body), record(t, double, d.body)
			require.NotEqual(t, want, got, "both servers answer alike: remove it from the list")
			t.Logf("reason: %s\n%s", d.reason, divergence(reference, double, want, got))
		})
	}
}
