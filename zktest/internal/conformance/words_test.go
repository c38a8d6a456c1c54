// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// What four-letter words tell depends on time and load. What they tell it under, and in which form, does not.

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

// shape is a text without what depends on time and load.
func shape(text string) string {
	text = versions.ReplaceAllString(text, "${1}a version")
	text = lastOp.ReplaceAllString(text, "lop=OPERATION")
	text = address.ReplaceAllString(text, "/address")
	text = hex.ReplaceAllString(text, "hexadecimal")
	return number.ReplaceAllString(text, "number")
}

// once leaves one of the lines that look the same. How many connections there are is a matter of time, too: ZooKeeper
// may not have noticed yet that those of earlier words have ended.
func once(text string) []string {
	return slices.Compact(strings.Split(text, "\n"))
}

// asking has a player with an ephemeral node and watches, and writes down what a word tells then, in shape.
func asking(word string, in func(string) string) scenario {
	return scenario{"the word " + word, func(s *stage) {
		a := s.session("a")
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(getW("/stage/e"))
		a.do(childrenW(root))
		s.lines = append(s.lines, once(in(s.on.word(s.t, word)))...)
	}}
}

func TestWordsAreAnsweredInTheSameForm(t *testing.T) {
	reference, double := both(t)
	for word, in := range map[string]func(string) string{
		"ruok": strings.Clone,
		"isro": strings.Clone,
		"srvr": shape,
		"stat": shape,
		"conf": func(text string) string { return shape(folder.ReplaceAllString(text, "=/folder")) },
		"cons": func(text string) string { // the connections come in no order
			lines := strings.Split(shape(text), "\n")
			slices.Sort(lines)
			return strings.Join(lines, "\n")
		},
		"dump": func(text string) string {
			// How sessions and connections are spread over moments is a matter of when they came.
			text = expiry.ReplaceAllString(text, "")
			text = conns.ReplaceAllString(sets.ReplaceAllString(text, "Session Sets (number)/"), "Connections Sets (number)/(number)")
			return hex.ReplaceAllString(address.ReplaceAllString(text, "/address"), "hexadecimal")
		},
	} {
		t.Run(word, func(t *testing.T) { same(t, asking(word, in), reference, double) })
	}
}

func TestWordsTellOfTheSameWatches(t *testing.T) {
	reference, double := both(t)
	same(t, scenario{"words about watches", func(s *stage) {
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/n", wire.Persistent))
		tell := func() {
			for _, word := range []string{"wchs", "wchc", "wchp"} {
				// Sessions and paths come in the order of a hash table.
				lines := strings.Split(hex.ReplaceAllString(s.on.word(s.t, word), "session"), "\n")
				slices.Sort(lines)
				s.lines = append(s.lines, lines...)
			}
		}
		tell()
		a.do(getW("/stage/n"))
		b.do(getW("/stage/n"))
		b.do(existsW("/stage/missing"))
		b.do(childrenW(root))
		tell()
		a.do(wire.AddWatch{Path: "/stage/n", Mode: 0})
		b.do(wire.AddWatch{Path: root, Mode: 1})
		tell()
		a.do(create("/stage/missing", wire.Persistent))
		b.leave()
		tell()
	}}, reference, double)
}

func TestSrvrTotalsRiseAsZooKeepersAndNeverFall(t *testing.T) {
	reference, double := both(t)
	same(t, scenario{"totals of srvr", func(s *stage) {
		total := func(word, key string) int {
			for line := range strings.Lines(s.on.word(s.t, word)) {
				if value, found := strings.CutPrefix(strings.TrimSpace(line), key+": "); found {
					return count(s.t, value)
				}
			}
			s.t.Fatalf("%s: %s has no %s", s.on.name, word, key)
			return 0
		}
		received, sent := 0, 0
		note := func(what string) {
			_ = s.on.word(s.t, "ruok") // what was sent before is counted by now
			r := total("srvr", "Received")
			w := total("stat", "Sent")
			if received > 0 {
				s.note("%s: received rose by %d, sent by %d", what, r-received, w-sent)
			}
			received, sent = r, w
		}
		note("the beginning")
		note("words")
		a, b := s.session("a"), s.session("b")
		note("two sessions")
		a.do(create("/stage/n", wire.Persistent))
		b.do(getW("/stage/n"))
		note("requests")
		a.do(deletion("/stage/n", -1))
		note("an event")
		a.do(getW("/stage/n"))
		note("a refusal")
		b.leave()
		note("the end of a session")
	}}, reference, double)
}

// ZooKeeper closes what does not greet it at a multiple of its interval, once it was silent for one.
func TestConnectionWithoutHandshakeIsClosedAsZooKeeperDoes(t *testing.T) {
	const interval = 100 * time.Millisecond
	reference := special(t, "-property", "zookeeper.nio.sessionlessCnxnTimeout="+strconv.FormatInt(interval.Milliseconds(), 10))
	ensemble := zktest.StartWith(t, &zktest.Options{HandshakeTimeout: interval})
	for name, first := range map[string][]byte{"nothing": nil, "half a length": {0, 0}, "half a frame": {0, 0, 0, 45, 0}} {
		same(t, scenario{"a connection that sends " + name, func(s *stage) {
			p := s.stranger("silent")
			p.dumb = true
			require.NoError(s.t, p.conn.Send(first))
			_, err := p.conn.Frame(s.patience)
			s.note("it ends: %v", errors.Is(err, rawclient.ErrEnded))
			// A client that has greeted is not closed.
			s.session("greeted").do(exists(root))
		}}, reference, dialled("zktest", ensemble.Servers()[0]))
	}
}

func TestMntrTellsWhatZooKeeperTellsUnderTheSameKeys(t *testing.T) {
	reference, double := both(t)
	want, got := figures(reference.word(t, "mntr")), figures(double.word(t, "mntr"))
	require.NotEmpty(t, got)
	for key, value := range got {
		require.Contains(t, want, key)
		require.Equal(t, shape(key+"\t"+want[key]), shape(key+"\t"+value))
	}
	require.Equal(t, want["zk_server_state"], got["zk_server_state"])
	require.Equal(t, growth(t, reference), growth(t, double))
}

// growth is by how much the figures of mntr that count something rise through two sessions, three nodes and four
// watches.
func growth(t *testing.T, on server) []string {
	t.Helper()
	return perform(t, on, func(s *stage) {
		before := figures(on.word(t, "mntr"))
		a, b := s.session("a"), s.session("b")
		a.do(create("/stage/e", wire.Ephemeral))
		a.do(create("/stage/n", wire.Persistent))
		b.do(create("/stage/n/long", wire.Ephemeral))
		a.do(getW("/stage/e"))
		a.do(childrenW("/stage/e"))
		b.do(getW("/stage/n"))
		b.do(existsW("/stage/missing"))
		after := figures(on.word(t, "mntr"))
		for _, key := range []string{
			"zk_global_sessions", "zk_znode_count", "zk_ephemerals_count", "zk_watch_count", "zk_approximate_data_size",
			"zk_outstanding_requests",
		} {
			s.note("%s rose by %d", key, count(t, after[key])-count(t, before[key]))
		}
	})
}

func count(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// figures are the lines of mntr.
func figures(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found {
			all[key] = value
		}
	}
	return all
}
