// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/recipes"
)

var watchCountLine = regexp.MustCompile(`(?m)^zk_watch_count\s+(\d+)$`)

// watchCount returns how many watches the server has.
func (s *env) watchCount() int {
	s.T.Helper()
	answer, err := s.ensemble.Servers()[0].FourLetter(s.Ctx, "mntr")
	require.NoError(s.T, err)
	m := watchCountLine.FindStringSubmatch(answer)
	require.NotNil(s.T, m, answer)
	n, err := strconv.Atoi(m[1])
	require.NoError(s.T, err)
	return n
}

// cons matches a line of a server's answer to "cons", which has one for each connection.
var cons = regexp.MustCompile(`recved=(\d+),.*sid=0x([0-9a-f]+)`)

// received returns how many packets the server counts as received on the client's current connection: the handshake,
// requests, heartbeats and pings.
func (s *env) received(server *docker.Server, client *recipes.Client) int {
	s.T.Helper()
	return s.receivedFrom(server, client.SessionID())
}

func (s *env) receivedFrom(server *docker.Server, session int64) int {
	s.T.Helper()
	answer, err := server.FourLetter(s.Ctx, "cons")
	require.NoError(s.T, err)
	for line := range strings.Lines(answer) {
		m := cons.FindStringSubmatch(line)
		if m == nil || m[2] != fmt.Sprintf("%x", uint64(session)) {
			continue
		}
		n, err := strconv.Atoi(m[1])
		require.NoError(s.T, err)
		return n
	}
	require.FailNow(s.T, "no such session", "0x%x in %q", session, answer)
	return 0
}
