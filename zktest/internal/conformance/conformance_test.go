// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bufio"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/zkserver"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// own names the environment variable that may hold the address of a real server for this suite alone. The one that
// other packages' tests share does not do: zxids compare only where nobody else writes.
const own = "ZKTEST_SERVER"

var (
	seeds = flag.Int("conformance.seeds", 20, "how many generated sequences to play")
	first = flag.Uint64("conformance.seed", 1, "the seed of the first")
	moves = flag.Int("conformance.moves", 200, "how long each is")
)

var transcripts = flag.String("conformance.transcripts", "", "folder to write the real server's transcripts to")

func TestMain(m *testing.M) {
	if err := os.Setenv(zkserver.Variable, os.Getenv(own)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(zkserver.Main(m))
}

// zooKeeper is the real server.
func zooKeeper(t *testing.T) server {
	t.Helper()
	addr, _, _ := strings.Cut(os.Getenv(zkserver.Variable), ",")
	s := dialled("ZooKeeper", addr)
	s.least = s.setting(t, "minSessionTimeout")
	s.most = s.setting(t, "maxSessionTimeout")
	unwritten.Do(func() {
		if s.fresh(t) {
			unwritten.seen = look(t, s)
		}
	})
	return s
}

// inProcess is zktest's server, started for the test and set up as the real one is.
func inProcess(t *testing.T, like server) server {
	t.Helper()
	tick := 400 * time.Millisecond
	ensemble := zktest.StartWith(t, &zktest.Options{Tick: tick, ContainerInterval: 100 * time.Millisecond, TTLNodes: like.ttl})
	s := dialled("zktest", ensemble.Servers()[0])
	s.least = int32(2 * tick.Milliseconds())
	s.most = int32(20 * tick.Milliseconds())
	return s
}

func dialled(name, addr string) server {
	return server{name: name, dial: func() (net.Conn, error) { return net.DialTimeout("tcp", addr, enough) }}
}

// word asks a four-letter word.
func (s server) word(t *testing.T, word string) string {
	t.Helper()
	c, err := s.dial()
	require.NoError(t, err, s.name)
	raw := rawclient.New(c)
	defer func() { require.NoError(t, raw.Close()) }()
	require.NoError(t, raw.Send([]byte(word)), s.name)
	text, err := raw.Text(enough)
	require.NoError(t, err, "%s: %s", s.name, word)
	return text
}

// setting is a number of the real server's configuration.
func (s server) setting(t *testing.T, key string) int32 {
	t.Helper()
	lines := bufio.NewScanner(strings.NewReader(s.word(t, "conf")))
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), key+"="); found {
			n, err := strconv.ParseInt(text, 10, 32)
			require.NoError(t, err)
			return int32(n)
		}
	}
	t.Fatalf("%s does not tell its %s: is the word conf allowed?", s.name, key)
	return 0
}

// hasTTL finds out whether the server's extended types are enabled.
func (s server) hasTTL(t *testing.T) bool {
	t.Helper()
	st := newStage(t, s)
	hand := st.session("hand")
	reply := hand.do(createTTL("/conformance-probe", wire.PersistentWithTTL, 1000))
	if reply.Err == wire.OK {
		hand.do(deletion("/conformance-probe", -1))
	}
	hand.leave()
	return reply.Err == wire.OK
}

// both are the servers that are compared.
func both(t *testing.T) (reference, double server) {
	t.Helper()
	reference = zooKeeper(t)
	reference.ttl = reference.hasTTL(t)
	return reference, inProcess(t, reference)
}

func TestZktestAnswersAsZooKeeperDoes(t *testing.T) {
	reference, double := both(t)
	for _, sc := range slices.Concat(creations, changes, transactions, permissions, oneShot, persistent, restored, sessions, reads, frames) {
		t.Run(sc.name, func(t *testing.T) {
			want := perform(t, reference, sc.play)
			keep(t, sc.name, want)
			requireSame(t, want, perform(t, double, sc.play))
		})
	}
}

func TestZktestAnswersGeneratedRequestsAsZooKeeperDoes(t *testing.T) {
	reference, double := both(t)
	for seed := *first; seed < *first+uint64(*seeds); seed++ { //nolint:gosec // a number of seeds
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			all := sequence(seed, *moves)
			part := func(moves []move) (want, got []string) {
				return perform(t, reference, play(moves)), perform(t, double, play(moves))
			}
			want, got := part(all)
			keep(t, fmt.Sprint("generated ", seed), want)
			if slices.Equal(want, got) {
				return
			}
			few := shrink(all, 200, func(moves []move) bool {
				want, got := part(moves)
				return !slices.Equal(want, got)
			})
			t.Logf("play it again with -conformance.seed=%d -conformance.seeds=1 -conformance.moves=%d; %d moves suffice", seed, *moves, len(few))
			if w, g := part(few); !slices.Equal(w, g) { // else it does not happen each time
				want, got = w, g
			}
			requireSame(t, want, got)
		})
	}
}

// keep writes a transcript to the folder that the flag names.
func keep(t *testing.T, name string, lines []string) {
	t.Helper()
	if *transcripts == "" {
		return
	}
	file := filepath.Join(*transcripts, strings.ReplaceAll(name, " ", "_")+".txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

// requireSame compares two transcripts. It shows the first step at which they part.
func requireSame(t *testing.T, want, got []string) {
	t.Helper()
	if slices.Equal(want, got) {
		return
	}
	require.Fail(t, "zktest does not answer as ZooKeeper does", parting(want, got))
}

// parting shows where two transcripts part: what led there, and what each says then.
func parting(want, got []string) string {
	at := 0
	for at < min(len(want), len(got)) && want[at] == got[at] {
		at++
	}
	show := func(lines []string, from, to int) string {
		from, to = max(from, 0), min(to, len(lines))
		if from >= to {
			return "\n    (nothing)"
		}
		return "\n    " + strings.Join(lines[from:to], "\n    ")
	}
	return fmt.Sprintf("line %d, after%s\nZooKeeper:%s\nzktest:%s", at+1, show(want, at-4, at), show(want, at, at+4), show(got, at, at+4))
}
