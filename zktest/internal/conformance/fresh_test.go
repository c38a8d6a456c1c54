// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// unwritten is what the real server shows of itself before anybody has written to it, nil if somebody had when the
// tests began. Only the first of them can look.
var unwritten struct {
	sync.Once
	seen []string
}

// look is a transcript of the nodes that a server makes for itself.
func look(t *testing.T, on server) []string {
	t.Helper()
	s := newStage(t, on)
	a := s.session("a")
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		a.do(exists(path))
		a.do(children(path))
		a.do(getACL(path))
	}
	seen := s.lines
	a.leave()
	return seen
}

func (s server) fresh(t *testing.T) bool {
	t.Helper()
	return strings.Contains(s.word(t, "srvr"), "\nZxid: 0x0\n")
}

func TestAServerBeginsWithZooKeepersOwnNodes(t *testing.T) {
	reference := zooKeeper(t)
	if unwritten.seen == nil {
		t.Skip("the real server is not a fresh one")
	}
	require.Equal(t, unwritten.seen, look(t, inProcess(t, reference)))
}
