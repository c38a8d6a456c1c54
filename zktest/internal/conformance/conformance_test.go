// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
	"github.com/lockkeeper/lockkeeper/zktest/internal/rawclient"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// serverVariable is the environment variable with the address of a real server for this suite alone, if there is one.
// The server that other packages' tests share is unsuitable: zxids compare only if no other client writes.
const serverVariable = "ZKTEST_SERVER"

// imageVariable is the environment variable with the servers' image: see the docker module.
const imageVariable = "ZK_TEST_IMAGE"

// implemented is the version of ZooKeeper that zktest implements.
const implemented = "3.8"

var (
	seeds     = flag.Int("conformance.seeds", 10, "number of generated sequences")
	firstSeed = flag.Uint64("conformance.seed", 1, "seed of the first sequence")
	steps     = flag.Int("conformance.steps", 200, "length of each sequence")
	version   = flag.String("conformance.version", implemented, "version of the real server; zktest implements the default, and others differ")
)

var transcripts = flag.String("conformance.transcripts", "", "folder to write transcripts to")

// imageOfVersion returns the image for the comparison, where other packages use the given one. It may have a newer server,
// of which zktest differs. An image that was built here is replaced by the one of the implemented version, which is built if
// it is missing; others are known by their names only.
func imageOfVersion(image string) (string, error) {
	flag.Parse()
	name, _, tagged := strings.Cut(image, ":")
	switch {
	case !tagged || *version != implemented:
		return image, nil
	case name == "zookeeper":
		return "zookeeper:" + implemented, nil
	case name == "zookeeper-local":
		cmd := exec.CommandContext(context.Background(), filepath.Join("..", "..", "..", "docker", "image.sh"))
		cmd.Env = append(os.Environ(), imageVariable+"=")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	return image, nil
}

func TestMain(m *testing.M) {
	if image, err := imageOfVersion(os.Getenv(imageVariable)); err != nil {
		fmt.Fprintf(os.Stderr, "conformance: find an image of ZooKeeper %s: %v\n", implemented, err)
		os.Exit(1)
	} else if err := os.Setenv(imageVariable, image); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(zktest.Main(withRealServer{m}))
}

// minTimeout is the shortest session timeout that the servers grant: a session of it outlives the time between two requests, also
// on a busy machine. Scenarios wait for the expiry of such sessions.
const minTimeout = 2 * time.Second

// realAddress is the address of the real server.
var realAddress string

// handshakeInterval is the interval at which the real server closes connections without a handshake. In it, each connection must
// say something.
const handshakeInterval = 2 * time.Second

// sessionless is the argument that sets it.
var sessionless = fmt.Sprintf("zookeeper.nio.sessionlessCnxnTimeout=%d", handshakeInterval.Milliseconds())

// withRealServer runs the tests with a real server. If none can be started, it runs no test and fails: a comparison that did
// not take place must not look like a success.
type withRealServer struct{ *testing.M }

func (m withRealServer) Run() (code int) {
	defer func() {
		if err := errors.Join(extended.stop(), os.RemoveAll(programs)); err != nil {
			fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
			code = 1
		}
	}()
	realAddress, _, _ = strings.Cut(os.Getenv(serverVariable), ",")
	if realAddress != "" {
		return m.M.Run()
	}
	fail := func(err error) int {
		fmt.Fprintf(os.Stderr, "conformance: %v\nInstall Java or a container engine, or set %s=host:port to a running server.\n", err, serverVariable)
		return 1
	}
	addr, stop, err := startEnsemble("-config", fmt.Sprintf("minSessionTimeout=%d", minTimeout.Milliseconds()), "-property", sessionless)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err := stop(); err != nil {
			code = fail(err)
		}
	}()
	realAddress = addr
	return m.M.Run()
}

// programs is a folder with the docker module's ensemble command, which is linked once. Run removes it.
var programs string

var buildEnsemble = sync.OnceValues(func() (file string, err error) {
	if programs, err = os.MkdirTemp("", "conformance"); err != nil {
		return "", err
	}
	file = filepath.Join(programs, "ensemble")
	args := []string{"build", "-C", filepath.Join("..", "..", "..", "docker"), "-ldflags=-s", "-o", file, "./cmd/ensemble"}
	if out, err := exec.CommandContext(context.Background(), "go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the ensemble command: %w\n%s", err, out)
	}
	return file, nil
})

// startEnsemble starts a real server, with arguments of the docker module's ensemble command. It runs that command and does
// not import the module, whose dependencies would become requirements of this one. stop closes the command's input, which ends
// it, as the end of this process does. A command that does not end is killed.
func startEnsemble(args ...string) (addr string, stop func() error, err error) {
	const forStart, forStop = 5 * time.Minute, time.Minute // an image may have to be built first
	program, err := buildEnsemble()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(context.Background(), program, append([]string{"-n", "1"}, args...)...)
	cmd.Env = append(os.Environ(), "ZK_SERVERS=") // so that it starts a server in any case
	cmd.Stderr = os.Stderr
	p, err := child.Launch(cmd)
	if err != nil {
		return "", nil, err
	}
	stop = func() error {
		defer time.AfterFunc(forStop, p.Kill).Stop()
		return errors.Join(p.CloseInput(), p.Wait())
	}
	ctx, cancel := context.WithTimeout(context.Background(), forStart)
	defer cancel()
	line, err := p.Await(ctx, "ZK_SERVERS=")
	if err != nil {
		p.Kill()
		return "", nil, err
	}
	return strings.TrimPrefix(line, "ZK_SERVERS="), stop, nil
}

// zooKeeper returns the real server.
func zooKeeper(t *testing.T) server {
	t.Helper()
	s := realAt(t, realAddress)
	initialNodes.Do(func() {
		if s.fresh(t) {
			initialNodes.seen = readInitialNodes(t, s)
		}
	})
	return s
}

// realAt returns the real server at an address. It skips the test, in CI it fails it, if the server has another version than
// the flag names.
func realAt(t *testing.T, addr string) server {
	t.Helper()
	s := tcpServer("ZooKeeper", addr)
	if line, _, _ := strings.Cut(s.word(t, "srvr"), "\n"); !strings.HasPrefix(line, "Zookeeper version: "+*version+".") {
		need.Lacking(t, "%s: the comparison is with version %s: set %s=zookeeper:3.8, or %s to a server of that version", line, *version, imageVariable, serverVariable)
	}
	s.minTimeout = s.setting(t, "minSessionTimeout")
	s.maxTimeout = s.setting(t, "maxSessionTimeout")
	return s
}

// inProcess starts a server of zktest for the test, with the real server's configuration.
func inProcess(t *testing.T, like server) server {
	t.Helper()
	s, _ := startZktest(t, like, nil, false)
	return s
}

// inMemory is inProcess with connections in memory.
func inMemory(t *testing.T, like server) server {
	t.Helper()
	s, ensemble := startZktest(t, like, nil, true)
	addr := ensemble.Addrs()[0]
	s.name += " in memory"
	s.dial = func() (net.Conn, error) { return ensemble.Dial(context.Background(), "tcp", addr) }
	return s
}

func startZktest(t *testing.T, like server, users map[string]string, memory bool) (server, *zktest.Ensemble) {
	t.Helper()
	const tick = minTimeout / 2
	ensemble := zktest.Start(t, &zktest.Options{
		Tick: tick, ContainerInterval: 100 * time.Millisecond, TTLNodes: like.ttl, InMemory: memory, Users: users,
	})
	s := tcpServer("zktest", ensemble.Addrs()[0])
	s.minTimeout, s.maxTimeout, s.ttl = int32(2*tick.Milliseconds()), int32(20*tick.Milliseconds()), like.ttl
	return s, ensemble
}

func tcpServer(name, addr string) server {
	return server{name: name, address: addr, dial: func() (net.Conn, error) { return net.DialTimeout("tcp", addr, maxWait) }}
}

// word sends a four-letter word and returns the answer.
func (s server) word(t *testing.T, word string) string {
	t.Helper()
	c, err := s.dial()
	require.NoError(t, err, s.name)
	raw := rawclient.New(c)
	defer func() { require.NoError(t, raw.Close()) }()
	require.NoError(t, raw.Send([]byte(word)), s.name)
	text, err := raw.Text(maxWait)
	require.NoError(t, err, "%s: %s", s.name, word)
	return text
}

// setting returns a number from the server's configuration.
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
	t.Fatalf("%s: answer to conf: no %s: allow the word conf", s.name, key)
	return 0
}

// hasTTL reports whether the server's extended types are enabled.
func (s server) hasTTL(t *testing.T) bool {
	t.Helper()
	st := newRun(t, s)
	admin := st.session("hand")
	reply := admin.do(createTTL("/conformance-probe", wire.PersistentWithTTL, 1000))
	if reply.Err == wire.OK {
		admin.do(deletion("/conformance-probe", -1))
	}
	admin.endSession()
	return reply.Err == wire.OK
}

// both returns the two servers to compare.
func both(t *testing.T) (reference, double server) {
	t.Helper()
	reference = zooKeeper(t)
	reference.ttl = reference.hasTTL(t)
	return reference, inProcess(t, reference)
}

var scenarios = slices.Concat(creations, changes, transactions, permissions, oneShot, persistent, restored, sessions, reads, frames, nulls)

func compareAll(t *testing.T, all []scenario, reference server, doubles ...server) {
	t.Helper()
	for _, sc := range all {
		t.Run(sc.name, func(t *testing.T) {
			requireSame(t, sc, reference, doubles...)
		})
	}
}

// requireSame runs a scenario on all servers, and requires equal transcripts.
func requireSame(t *testing.T, sc scenario, reference server, doubles ...server) {
	t.Helper()
	want := record(t, reference, sc.body)
	saveTranscript(t, sc.name, reference, want)
	for _, double := range doubles {
		got := record(t, double, sc.body)
		saveTranscript(t, sc.name, double, got)
		require.True(t, slices.Equal(want, got), divergence(reference, double, want, got))
	}
}

// The answers do not depend on the kind of connection.
func TestZktestAnswersAsZooKeeperDoes(t *testing.T) {
	need.NoRaceDetector(t)
	reference, double := both(t)
	compareAll(t, scenarios, reference, double, inMemory(t, reference))
}

func TestTTLNodesBehaveAsInZooKeeper(t *testing.T) {
	reference := extended.server(t)
	reference.ttl = reference.hasTTL(t)
	require.True(t, reference.ttl, "its extended types are enabled")
	compareAll(t, ttlScenarios, reference, inProcess(t, reference))
}

func TestZktestAnswersGeneratedRequestsAsZooKeeperDoes(t *testing.T) {
	need.NoRaceDetector(t)
	reference, double := both(t)
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ { //nolint:gosec // not negative
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			generated := sequence(seed, *steps)
			answers := func(steps []step) (want, got []string) {
				return record(t, reference, playSteps(steps)), record(t, double, playSteps(steps))
			}
			want, got := answers(generated)
			saveTranscript(t, fmt.Sprint("generated ", seed), reference, want)
			saveTranscript(t, fmt.Sprint("generated ", seed), double, got)
			if slices.Equal(want, got) {
				return
			}
			few := shrink(generated, 200, func(steps []step) bool {
				want, got := answers(steps)
				return !slices.Equal(want, got)
			})
			t.Logf("repeat it with -conformance.seed=%d -conformance.seeds=1 -conformance.steps=%d; %d steps suffice", seed, *steps, len(few))
			if w, g := answers(few); !slices.Equal(w, g) { // otherwise the shrunk sequence does not always fail
				want, got = w, g
			}
			require.Fail(t, "the servers answer differently", divergence(reference, double, want, got))
		})
	}
}

// saveTranscript writes a transcript to the folder that the flag names.
func saveTranscript(t *testing.T, name string, on server, lines []string) {
	t.Helper()
	if *transcripts == "" {
		return
	}
	file := filepath.Join(*transcripts, strings.ReplaceAll(name, " ", "_")+"."+strings.ReplaceAll(on.name, " ", "_")+".txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// divergence describes the first difference between two transcripts, with the lines around it.
func divergence(reference, double server, want, got []string) string {
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
