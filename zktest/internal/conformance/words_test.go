// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The values in the answers to four-letter words depend on time and load. Their keys and their format do not.

var (
	number   = regexp.MustCompile(`\b\d+(\.\d+)?\b`)
	hex      = regexp.MustCompile(`0x[0-9a-f]+`)
	address  = regexp.MustCompile(`/[0-9a-f.:]+:\d+`)
	versions = regexp.MustCompile(`(?m)^(Zookeeper version: |zk_version\t)3\.8\.\d+-.*, built on \d{4}-\d\d-\d\d \d\d:\d\d UTC$`)
	lastOp   = regexp.MustCompile(`lop=\w+`)
	expiry   = regexp.MustCompile(`(?m)^\d+ expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}:\n`)
	sets     = regexp.MustCompile(`Session Sets \(\d+\)/`)
	folder   = regexp.MustCompile(`=/.*`)
	conns    = regexp.MustCompile(`Connections Sets \(\d+\)/\(\d+\)`)
)

// normalize replaces the values that depend on time and load.
func normalize(text string) string {
	text = versions.ReplaceAllString(text, "${1}a version")
	text = lastOp.ReplaceAllString(text, "lop=OPERATION")
	text = address.ReplaceAllString(text, "/address")
	text = hex.ReplaceAllString(text, "hexadecimal")
	return number.ReplaceAllString(text, "number")
}

// dedupe removes repeated lines. The number of connections depends on time, too: ZooKeeper may not have noticed yet that
// the connections of earlier words have ended.
func dedupe(text string) []string {
	return slices.Compact(strings.Split(text, "\n"))
}

// wordScenario records the answer to a word, in the form that in returns, while a client has an ephemeral node and
// watches.
func wordScenario(word string, in func(string) string) scenario {
	return scenario{"the word " + word, func(s *run) {
		a := s.session("a")
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(getW("/probe/e"))
		a.do(childrenW(root))
		s.lines = append(s.lines, dedupe(in(s.server.word(s.t, word)))...)
	}}
}

func TestFourLetterWordsHaveSameForm(t *testing.T) {
	reference, double := both(t)
	for word, in := range map[string]func(string) string{
		"ruok": strings.Clone,
		"isro": strings.Clone,
		"srvr": normalizeOutstanding,
		"stat": normalizeOutstanding,
		"conf": func(text string) string { return normalize(folder.ReplaceAllString(text, "=/folder")) },
		"cons": func(text string) string { // the connections have no order
			lines := strings.Split(normalize(text), "\n")
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		},
		"dump": func(text string) string {
			// The times of expiry of sessions and connections depend on the times of their handshakes.
			text = expiry.ReplaceAllString(text, "")
			text = conns.ReplaceAllString(sets.ReplaceAllString(text, "Session Sets (number)/"), "Connections Sets (number)/(number)")
			return hex.ReplaceAllString(address.ReplaceAllString(text, "/address"), "hexadecimal")
		},
	} {
		t.Run(word, func(t *testing.T) { requireSame(t, wordScenario(word, in), reference, double) })
	}
}

// normalizeOutstanding is normalize for words that report outstanding requests: ZooKeeper counts a request after it has passed it on, and
// can report -1.
func normalizeOutstanding(text string) string {
	return strings.ReplaceAll(normalize(text), "Outstanding: -number", "Outstanding: number")
}

func TestFourLetterWordsReportSameWatches(t *testing.T) {
	reference, double := both(t)
	requireSame(t, scenario{"words about watches", func(s *run) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/n", wire.Persistent))
		addAnswers := func() {
			for _, word := range []string{"wchs", "wchc", "wchp"} {
				// Sessions and paths are in the order of a hash table.
				lines := strings.Split(hex.ReplaceAllString(s.server.word(s.t, word), "session"), "\n")
				slices.Sort(lines)
				s.lines = append(s.lines, lines...)
			}
		}
		addAnswers()
		a.do(getW("/probe/n"))
		b.do(getW("/probe/n"))
		b.do(existsW("/probe/missing"))
		b.do(childrenW(root))
		addAnswers()
		a.do(wire.AddWatch{Path: "/probe/n", Mode: 0})
		b.do(wire.AddWatch{Path: root, Mode: 1})
		addAnswers()
		a.do(create("/probe/missing", wire.Persistent))
		b.endSession()
		addAnswers()
	}}, reference, double)
}

func TestSrvrTotalsRiseAsInZooKeeperAndNeverFall(t *testing.T) {
	reference, double := both(t)
	totals := scenario{"totals of srvr", func(s *run) {
		total := func(word, key string) int {
			for line := range strings.Lines(s.server.word(s.t, word)) {
				if value, found := strings.CutPrefix(strings.TrimSpace(line), key+": "); found {
					return count(s.t, value)
				}
			}
			s.t.Fatalf("%s: %s has no %s", s.server.name, word, key)
			return 0
		}
		received, sent := 0, 0
		note := func(what string) {
			_ = s.server.word(s.t, "ruok") // earlier packets are counted by now
			r := total("srvr", "Received")
			w := total("stat", "Sent")
			if received > 0 {
				s.note("%s: received rose by %d, sent by %d", what, r-received, w-sent)
			}
			received, sent = r, w
		}
		note("start")
		note("words")
		a, b := s.session("a"), s.session("b")
		note("two sessions")
		a.do(create("/probe/n", wire.Persistent))
		b.do(getW("/probe/n"))
		note("requests")
		a.do(deletion("/probe/n", -1))
		note("an event")
		a.do(getW("/probe/n"))
		note("a refusal")
		b.endSession()
		note("the end of a session")
	}}
	// ZooKeeper counts a packet in another thread than that which answers it. A double that counts wrongly differs each time.
	for range 5 {
		if slices.Equal(record(t, reference, totals.body), record(t, double, totals.body)) {
			return
		}
	}
	requireSame(t, totals, reference, double)
}

// ZooKeeper closes a connection without a handshake at a multiple of its interval, after one interval of silence.
func TestConnectionWithoutHandshakeIsClosedAsInZooKeeper(t *testing.T) {
	reference := zooKeeper(t)
	if os.Getenv(serverVariable) != "" {
		need.Lacking(t, "%s names a server whose interval is unknown", serverVariable)
	}
	ensemble := zktest.Start(t, &zktest.Options{HandshakeTimeout: handshakeInterval})
	requireSame(t, scenario{"connections without a handshake", func(s *run) {
		connected := s.session("connected")
		var silent []*client
		for _, first := range [][]byte{nil, {0, 0}, {0, 0, 0, 45, 0}} { // half a length, half a frame
			p := s.dial("silent")
			p.noPings = true
			require.NoError(s.t, p.conn.Send(first))
			silent = append(silent, p)
		}
		for i, p := range silent {
			_, err := p.conn.Frame(s.patience)
			s.note("connection %d ends: %v", i, errors.Is(err, rawclient.ErrEnded))
		}
		connected.do(exists(root)) // a connection with a handshake is not closed
	}}, reference, tcpServer("zktest", ensemble.Addrs()[0]))
}

func TestMntrReportsZooKeepersValuesUnderSameKeys(t *testing.T) {
	reference, double := both(t)
	want, got := settled(t, reference), settled(t, double)
	require.NotEmpty(t, got)
	for key, value := range got {
		require.Contains(t, want, key)
		require.Equal(t, normalize(key+"\t"+want[key]), normalize(key+"\t"+value))
	}
	require.Equal(t, want["zk_server_state"], got["zk_server_state"])
	require.Equal(t, metricGrowth(t, reference), metricGrowth(t, double))
}

// metricGrowth returns the increase of mntr's counts through two sessions, three nodes and four watches.
func metricGrowth(t *testing.T, on server) []string {
	t.Helper()
	return record(t, on, func(s *run) {
		before := settled(t, on)
		a, b := s.session("a"), s.session("b")
		a.do(create("/probe/e", wire.Ephemeral))
		a.do(create("/probe/n", wire.Persistent))
		b.do(create("/probe/n/long", wire.Ephemeral))
		a.do(getW("/probe/e"))
		a.do(childrenW("/probe/e"))
		b.do(getW("/probe/n"))
		b.do(existsW("/probe/missing"))
		after := settled(t, on)
		for _, key := range []string{
			"zk_global_sessions", "zk_znode_count", "zk_ephemerals_count", "zk_watch_count", "zk_approximate_data_size",
		} {
			s.note("%s rose by %d", key, count(t, after[key])-count(t, before[key]))
		}
	})
}

// settled returns the metrics once no request is outstanding: ZooKeeper answers before it counts a request as done, or has counted it at
// all, and an earlier test's session may still be closing.
func settled(t *testing.T, on server) map[string]string {
	t.Helper()
	var all map[string]string
	require.Eventually(t, func() bool {
		all = metrics(on.word(t, "mntr"))
		return all["zk_outstanding_requests"] == "0"
	}, time.Minute, 10*time.Millisecond)
	return all
}

func count(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// metrics returns the lines of mntr by key.
func metrics(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found {
			all[key] = value
		}
	}
	return all
}
