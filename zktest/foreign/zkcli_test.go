// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write zkCli's output on a real server to testdata/zkcli")

// testdata/zkcli contains zkCli's output on a real server of the version that zktest implements. If a real server is
// available, the script runs on it as well, so that the recorded output stays correct.
func TestZkCliPrintsSameAsOnRealServer(t *testing.T) {
	real := os.Getenv("ZKTEST_FOREIGN_SERVERS")
	if real == "" {
		t.Run("zktest", func(t *testing.T) { compareWithRecorded(t, zkCli(t, serve(t))) })
		real = os.Getenv("ZK_SERVERS")
	}
	t.Run("real server", func(t *testing.T) {
		if real == "" {
			t.Skip("not run: neither ZK_SERVERS nor ZKTEST_FOREIGN_SERVERS names one")
		}
		s := realServer(real)
		if version := versionOf(t, s); !strings.HasPrefix(version, "3.8.") {
			t.Skipf("not run: the recorded output is from version 3.8, the server has %s", version)
		}
		printed := zkCli(t, s)
		if *update {
			for file, content := range printed {
				require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
			}
		}
		compareWithRecorded(t, printed)
	})
}

func compareWithRecorded(t *testing.T, printed map[string]string) {
	t.Helper()
	for _, file := range slices.Sorted(maps.Keys(printed)) {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), printed[file], file)
	}
}

// versionOf returns a server's version.
func versionOf(t *testing.T, s *server) string {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(bounded(t), "tcp", s.addresses[0])
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(maxWait)))
	_, err = io.WriteString(conn, "srvr")
	require.NoError(t, err)
	var version string
	_, err = fmt.Fscanf(conn, "Zookeeper version: %s", &version)
	require.NoError(t, err)
	return version
}

// zkCli runs the script, and returns its output by the file in which it is recorded. Answers to commands and watch
// events are in separate files, because two threads print them.
func zkCli(t *testing.T, s *server) map[string]string {
	t.Helper()
	script, err := os.ReadFile("testdata/zkcli/script.txt")
	require.NoError(t, err)
	fill := strings.NewReplacer("$ROOT", s.root, "$SERVER", s.addresses[0])
	p := java(t, zooKeeperJars, "org.apache.zookeeper.ZooKeeperMain", "-server", s.addresses[0])
	for line := range strings.Lines(fill.Replace(string(script))) {
		line = strings.TrimSuffix(line, "\n")
		if event, wait := strings.CutPrefix(line, "#wait "); wait {
			p.until(event)
			continue
		}
		p.send(line)
	}
	p.wait()

	var answers, events []string
	for line := range strings.Lines(normalize(p.output(), s)) {
		switch line = strings.TrimSpace(line); {
		case line == "" || line == "WATCHER::" || strings.Contains(line, " type:None "):
			// The state of a connection. There are two connections, whose events have no order.
		case strings.HasPrefix(line, "WatchedEvent "):
			events = append(events, line)
		default:
			answers = append(answers, line)
		}
	}
	in := func(name string) string { return filepath.Join("testdata", "zkcli", name) }
	return map[string]string{
		in("answers.txt"): strings.Join(answers, "\n") + "\n",
		in("events.txt"):  strings.Join(events, "\n") + "\n",
	}
}

var (
	times      = regexp.MustCompile(`(?m)^([cm]time) = .*$`)
	owners     = regexp.MustCompile(`(?m)^(ephemeralOwner) = 0x[1-9a-f][0-9a-f]*$`)
	zxids      = regexp.MustCompile(`(?m)^([cmp]Zxid) = 0x([0-9a-f]+)$`)
	sets       = regexp.MustCompile(`(?m)^\[.*\]$`)
	identities = regexp.MustCompile(`(?m)(^(ip|digest): .*\n)+`)
	ownAddress = regexp.MustCompile(`(?m)^ip: .*$`)
)

// normalize replaces the values that differ from run to run. It preserves the order of zxids.
func normalize(text string, s *server) string {
	text = strings.NewReplacer(s.root, "$ROOT", s.addresses[0], "$SERVER").Replace(text)
	text = times.ReplaceAllString(text, "$1 = TIME")
	text = owners.ReplaceAllString(text, "$1 = SESSION")
	text = ownAddress.ReplaceAllString(text, "ip: ADDRESS")

	var seen []uint64
	for _, found := range zxids.FindAllStringSubmatch(text, -1) {
		zxid, _ := strconv.ParseUint(found[2], 16, 64) // the expression matches digits only
		seen = append(seen, zxid)
	}
	slices.Sort(seen)
	seen = slices.Compact(seen)
	text = zxids.ReplaceAllStringFunc(text, func(line string) string {
		found := zxids.FindStringSubmatch(line)
		zxid, _ := strconv.ParseUint(found[2], 16, 64)
		rank, _ := slices.BinarySearch(seen, zxid)
		return found[1] + " = #" + strconv.Itoa(rank)
	})
	// The server returns these in no particular order.
	text = identities.ReplaceAllStringFunc(text, func(lines string) string {
		return strings.Join(slices.Sorted(strings.Lines(lines)), "")
	})
	return sets.ReplaceAllStringFunc(text, func(line string) string {
		members := strings.Split(strings.Trim(line, "[]"), ", ")
		slices.Sort(members)
		return "[" + strings.Join(members, ", ") + "]"
	})
}
