// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// What four-letter words tell depends on time and load. What they tell it under, and in which form, does not.

var (
	number   = regexp.MustCompile(`\b\d+(\.\d+)?\b`)
	hex      = regexp.MustCompile(`0x[0-9a-f]+`)
	address  = regexp.MustCompile(`/[0-9a-f.:]+:\d+`)
	versions = regexp.MustCompile(`(?m)^(Zookeeper version: |zk_version\t)3\.8\.\d+-.*, built on .*$`)
	lastOp   = regexp.MustCompile(`lop=\w+`)
	expiry   = regexp.MustCompile(`(?m)^\d+ expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \S+ \d{4}:\n`)
	sets     = regexp.MustCompile(`Session Sets \(\d+\)/`)
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
		"srvr": shape,
		"stat": shape,
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
