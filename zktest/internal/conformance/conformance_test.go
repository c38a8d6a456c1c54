// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bufio"
	"context"
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

// image names the one that may say which image servers run on, see the docker module.
const image = "ZK_TEST_IMAGE"

var (
	seeds = flag.Int("conformance.seeds", 20, "how many generated sequences to play")
	first = flag.Uint64("conformance.seed", 1, "the seed of the first")
	moves = flag.Int("conformance.moves", 200, "how long each is")
)

var transcripts = flag.String("conformance.transcripts", "", "folder to write transcripts to")

func TestMain(m *testing.M) {
	// Others take the newest; zktest is a 3.8.
	if name, _, tagged := strings.Cut(os.Getenv(image), ":"); tagged && name == "zookeeper" {
		if err := os.Setenv(image, "zookeeper:3.8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
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
	return realAt(t, addr)
}

// special is a real server that was started for the test, as the ensemble command's arguments say.
func special(t *testing.T, args ...string) server {
	t.Helper()
	addr, stop, err := zkserver.Serve(args...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, stop()) })
	return realAt(t, addr)
}

func realAt(t *testing.T, addr string) server {
	t.Helper()
	s := dialled("ZooKeeper", addr)
	if version, _, _ := strings.Cut(s.word(t, "srvr"), "\n"); !strings.HasPrefix(version, "Zookeeper version: 3.8.") {
		refuse := t.Skipf
		if os.Getenv("CI") != "" {
			refuse = t.Fatalf
		}
		refuse("%s is there, and zktest is a 3.8: set %s=zookeeper:3.8, or %s to a server of that version", version, image, own)
	}
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
	s, _ := double(t, like, false)
	return s
}

// inMemory is one that is reached without a socket.
func inMemory(t *testing.T, like server) server {
	t.Helper()
	s, ensemble := double(t, like, true)
	addr := ensemble.Servers()[0]
	s.name += " in memory"
	s.dial = func() (net.Conn, error) { return ensemble.Dial(context.Background(), "tcp", addr) }
	return s
}

func double(t *testing.T, like server, memory bool) (server, *zktest.Ensemble) {
	t.Helper()
	const tick = 400 * time.Millisecond
	ensemble := zktest.StartWith(t, &zktest.Options{
		Tick: tick, ContainerInterval: 100 * time.Millisecond, TTLNodes: like.ttl, InMemory: memory,
	})
	s := dialled("zktest", ensemble.Servers()[0])
	s.least, s.most, s.ttl = int32(2*tick.Milliseconds()), int32(20*tick.Milliseconds()), like.ttl
	return s, ensemble
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

var scenarios = slices.Concat(creations, changes, transactions, permissions, oneShot, persistent, restored, sessions, reads, frames)

func compare(t *testing.T, reference, double server, all []scenario) {
	t.Helper()
	for _, sc := range all {
		t.Run(sc.name, func(t *testing.T) {
			same(t, sc, reference, double)
		})
	}
}

// same plays a scenario on both servers, and requires the same of them.
func same(t *testing.T, sc scenario, reference, double server) {
	t.Helper()
	want, got := perform(t, reference, sc.play), perform(t, double, sc.play)
	keep(t, sc.name, reference, want)
	keep(t, sc.name, double, got)
	require.True(t, slices.Equal(want, got), parting(reference, double, want, got))
}

func TestZktestAnswersAsZooKeeperDoes(t *testing.T) {
	reference, double := both(t)
	compare(t, reference, double, scenarios)
}

func TestNodesWithATimeToLiveAreAsZooKeepers(t *testing.T) {
	reference := special(t, "-property", "zookeeper.extendedTypesEnabled=true")
	reference.ttl = reference.hasTTL(t)
	require.True(t, reference.ttl, "it was told to have them")
	compare(t, reference, inProcess(t, reference), mortals)
}

// What a client sees does not depend on what is between it and the server.
func TestZktestAnswersTheSameInMemory(t *testing.T) {
	reference := zooKeeper(t)
	socket, memory := inProcess(t, reference), inMemory(t, reference)
	compare(t, socket, memory, scenarios)
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
			keep(t, fmt.Sprint("generated ", seed), reference, want)
			keep(t, fmt.Sprint("generated ", seed), double, got)
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
			require.Fail(t, "they do not answer alike", parting(reference, double, want, got))
		})
	}
}

// keep writes a transcript to the folder that the flag names.
func keep(t *testing.T, name string, on server, lines []string) {
	t.Helper()
	if *transcripts == "" {
		return
	}
	file := filepath.Join(*transcripts, strings.ReplaceAll(name, " ", "_")+"."+strings.ReplaceAll(on.name, " ", "_")+".txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// parting shows where two transcripts part: what led there, and what each says then.
func parting(reference, double server, want, got []string) string {
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
	return fmt.Sprintf("line %d, after%s\n%s:%s\n%s:%s", at+1, show(want, at-4, at),
		reference.name, show(want, at, at+4), double.name, show(got, at, at+4))
}
