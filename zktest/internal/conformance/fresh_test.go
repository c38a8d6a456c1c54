// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// initialNodes is the transcript of the real server's nodes before any client has written to it, nil if one had when
// the tests began. Only the first test can record it.
var initialNodes struct {
	sync.Once
	seen []string
}

// readInitialNodes returns a transcript of the nodes that a server itself creates.
func readInitialNodes(t *testing.T, on server) []string {
	t.Helper()
	s := newRun(t, on)
	a := s.session("a")
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		a.do(exists(path))
		a.do(children(path))
		a.do(getACL(path))
	}
	seen := s.lines
	a.endSession()
	return seen
}

// fresh reports whether no client has written to the server.
func (s server) fresh(t *testing.T) bool {
	t.Helper()
	return strings.Contains(s.word(t, "srvr"), "\nZxid: 0x0\n")
}

func TestServerStartsWithZooKeepersInitialNodes(t *testing.T) {
	reference := zooKeeper(t)
	if initialNodes.seen == nil {
		need.Lacking(t, "a client has written to the real server: start a fresh one")
	}
	require.Equal(t, initialNodes.seen, readInitialNodes(t, inProcess(t, reference)))
}
