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

// A difference is one that stays: what, and why. Those with a scenario are tried, so that none stays in the list after
// it has gone; in the others, ZooKeeper does not do the same twice.
type difference struct {
	scenario
	because string
}

var differences = []difference{
	{
		scenario{"A request whose fields cannot be read ends the connection: ZooKeeper answers MarshallingError", unreadable},
		"a client that sends such is broken, and its test should fail where it breaks; the reason is logged",
	},
	{
		scenario{"SASL is unimplemented: ZooKeeper, not set up for it, answers with an empty token", func(s *stage) {
			a := s.session("a")
			a.do(rawclient.Raw{Op: wire.OpSASL, Put: func(w *wire.Writer) { w.Bytes([]byte("token")) }})
			a.do(exists(root))
		}},
		"a client that wants SASL has to hear that there is none",
	},
	{
		scenario{"A createSession among the requests is unimplemented: ZooKeeper takes it for its own and is confused", func(s *stage) {
			a := s.session("a")
			a.do(rawclient.Raw{Op: wire.OpCreateSession})
		}},
		"servers send it to themselves; no client does",
	},
	{
		scenario{"A check that is not part of a transaction is answered: ZooKeeper answers only the refused", func(s *stage) {
			a := s.session("a")
			a.do(create("/stage/n", wire.Persistent))
			s.patience = enough / 40
			a.ask(check("/stage/n", 0))
		}},
		"silence is a fault of the server, and no client sends a check like that",
	},
	{
		scenario{name: "Children, ephemeral nodes and identities are listed in sorted order: ZooKeeper's is that of a hash table"},
		"tests want the same each time; here, both are compared sorted",
	},
	{
		scenario{name: "The scheme auth in an ACL stands for the identities in the order in which they were given: in ZooKeeper in that of a hash table"},
		"tests want the same each time; here, both are compared sorted",
	},
	{
		scenario{name: "The nodes of a session go in sorted order: in ZooKeeper in that of a hash table"},
		"tests want the same each time; here, the events for them are compared sorted",
	},
	{
		scenario{name: "What follows a setACL is judged by the new ACL: in ZooKeeper perhaps by the old one, if both came in one write"},
		"ZooKeeper checks before it has carried out what came before, and this one it forgets to remember; here, nothing follows a setACL so closely",
	},
	{
		scenario{name: "A connection whose session expires may hear of its own nodes before it ends: in ZooKeeper its end usually comes first"},
		"what comes first there is a race between two threads; here, no session watches its own nodes as it expires",
	},
	{
		scenario{name: "The words mntr, srvr, stat and cons tell no latencies but zeros, mntr not under all keys, and nothing of the Java machine"},
		"there is none, and what takes time is the test itself; here, keys and their order are compared, not values",
	},
}

// unreadable are requests that a correct client does not send.
func unreadable(s *stage) {
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

func TestTheDocumentationTellsEachDifference(t *testing.T) {
	source, err := os.ReadFile("../../doc.go")
	require.NoError(t, err)
	lines := strings.Split(string(source), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(line, "//"))
	}
	told := strings.Join(lines, " ")
	for _, d := range differences {
		require.Contains(t, told, "- "+d.name+".")
	}
}

func TestEachListedDifferenceIsThere(t *testing.T) {
	reference, double := both(t)
	for _, d := range differences {
		require.NotEmpty(t, d.because)
		if d.play == nil {
			continue
		}
		t.Run(d.name, func(t *testing.T) {
			want, got := perform(t, reference, d.play), perform(t, double, d.play)
			require.NotEqual(t, want, got, "both answer alike: take it off the list")
			t.Logf("because %s\n%s", d.because, parting(reference, double, want, got))
		})
	}
}
