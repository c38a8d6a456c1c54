// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// version is what the servers say they are: the one whose behaviour they have.
const version = "3.8.0-zktest, built on memory"

// words are the four-letter words, each with what makes its answer. They are called
// with the ensemble's mu held.
var words = map[string]func(*Server) string{
	"ruok": func(*Server) string { return "imok" },
	"srvr": whileServing((*Server).srvr),
	"stat": whileServing((*Server).stat),
	"mntr": whileServing((*Server).mntr),
	"cons": whileServing((*Server).cons),
	"dump": whileServing((*Server).dump),
	"envi": func(*Server) string { return "Environment:\nzookeeper.version=" + version + "\n" },
}

// whileServing answers for a server that has no leader as ZooKeeper does.
func whileServing(answer func(*Server) string) func(*Server) string {
	return func(s *Server) string {
		if !s.serving {
			return "This ZooKeeper instance is not currently serving requests\n"
		}
		return answer(s)
	}
}

// Mode is what the server takes itself for: "standalone", "leader", "follower", or
// "" while it serves nobody.
func (s *Server) Mode() string {
	s.ensemble.mu.Lock()
	defer s.ensemble.unlock()
	if !s.serving {
		return ""
	}
	return s.mode()
}

func (s *Server) mode() string {
	switch {
	case len(s.ensemble.servers) == 1:
		return "standalone"
	case s == s.ensemble.leader, s.deposed:
		return "leader"
	}
	return "follower"
}

func (s *Server) nodes() (n, bytes int) {
	s.tree.Walk(func(path string, data []byte, _ wire.Stat) {
		n++
		bytes += len(path) + len(data)
	})
	return n, bytes
}

func (s *Server) srvr() string {
	return "Zookeeper version: " + version + "\n" + s.figures()
}

func (s *Server) figures() string {
	var t traffic
	for c := range s.conns {
		t.received += c.counts.received
		t.sent += c.counts.sent
	}
	nodes, _ := s.nodes()
	return fmt.Sprintf("Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: 0x%x\nMode: %s\nNode count: %d\n",
		t.received, t.sent, len(s.conns), len(s.waiting), s.zxid, s.mode(), nodes)
}

func (s *Server) stat() string {
	var b strings.Builder
	b.WriteString("Zookeeper version: " + version + "\nClients:\n")
	for _, c := range s.sorted() {
		fmt.Fprintf(&b, " %s\n", c.brief())
	}
	return b.String() + "\n" + s.figures()
}

// brief is how a connection is listed.
func (c *conn) brief() string {
	known := 0
	if c.session != nil {
		known = 1
	}
	return fmt.Sprintf("/%s[%d](queued=%d,recved=%d,sent=%d)", c.remote, known, len(c.waiting), c.counts.received, c.counts.sent)
}

// sorted are the server's connections, by their clients' addresses.
func (s *Server) sorted() []*conn {
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conn) int { return cmp.Compare(a.remote, b.remote) })
	return all
}

func (s *Server) cons() string {
	var b strings.Builder
	for _, c := range s.sorted() {
		line := c.brief()
		if c.session != nil {
			line = fmt.Sprintf("%s,sid=0x%x,lop=NA,est=0,to=%d,lcxid=0x0,lzxid=0x%x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)",
				strings.TrimSuffix(line, ")"), uint64(c.session.id), c.session.timeout.Milliseconds(), s.zxid) //nolint:gosec // as ZooKeeper prints it
		}
		fmt.Fprintf(&b, " %s\n", line)
	}
	return b.String() + "\n"
}

func (s *Server) mntr() string {
	nodes, bytes := s.nodes()
	ephemerals := 0
	for id := range s.ensemble.sessions {
		ephemerals += len(s.tree.Ephemerals(id, "/"))
	}
	var b strings.Builder
	for _, row := range []struct {
		key   string
		value any
	}{
		{"zk_version", version},
		{"zk_server_state", s.mode()},
		{"zk_ephemerals_count", ephemerals},
		{"zk_num_alive_connections", len(s.conns)},
		{"zk_watch_count", s.data.count() + s.children.count()},
		{"zk_approximate_data_size", bytes},
		{"zk_znode_count", nodes},
		{"zk_outstanding_requests", len(s.waiting)},
		{"zk_global_sessions", len(s.ensemble.sessions)},
	} {
		fmt.Fprintf(&b, "%s\t%v\n", row.key, row.value)
	}
	return b.String()
}

func (s *Server) dump() string {
	e := s.ensemble
	var b strings.Builder
	ids := slices.Sorted(maps.Keys(e.sessions))
	sessions := newExpirySets(e)
	for _, id := range ids {
		sessions.add(e.sessions[id].expires, fmt.Sprintf("0x%x", uint64(id))) //nolint:gosec // as ZooKeeper prints it
	}
	b.WriteString("SessionTracker dump:\nSession " + sessions.String())

	with := slices.DeleteFunc(ids, func(id int64) bool { return len(s.tree.Ephemerals(id, "/")) == 0 })
	fmt.Fprintf(&b, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(with))
	for _, id := range with {
		fmt.Fprintf(&b, "0x%x:\n", uint64(id)) //nolint:gosec // as ZooKeeper prints it
		for _, path := range s.tree.Ephemerals(id, "/") {
			fmt.Fprintf(&b, "\t%s\n", path)
		}
	}

	conns := newExpirySets(e)
	for _, c := range s.sorted() {
		expires, id := int64(0), int64(0)
		if c.session != nil {
			expires, id = c.session.expires, c.session.id
		}
		conns.add(expires, fmt.Sprintf("ip: /%s sessionId: 0x%x", c.remote, uint64(id))) //nolint:gosec // as ZooKeeper prints it
	}
	b.WriteString("Connections dump:\nConnections " + conns.String())
	return b.String()
}

// expirySets are what expires, by the tick at which it does.
type expirySets struct {
	ensemble *Ensemble
	byTick   map[int64][]string
	count    int
}

func newExpirySets(e *Ensemble) *expirySets {
	return &expirySets{ensemble: e, byTick: make(map[int64][]string)}
}

func (x *expirySets) add(tick int64, what string) {
	x.byTick[tick] = append(x.byTick[tick], what)
	x.count++
}

func (x *expirySets) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Sets (%d)/(%d):\n", len(x.byTick), x.count)
	for _, tick := range slices.Sorted(maps.Keys(x.byTick)) {
		at := x.ensemble.began.Add(time.Duration(tick) * x.ensemble.opts.Tick)
		fmt.Fprintf(&b, "%d expire at %s:\n", len(x.byTick[tick]), at.Format("Mon Jan 02 15:04:05 MST 2006"))
		for _, what := range x.byTick[tick] {
			fmt.Fprintf(&b, "\t%s\n", what)
		}
	}
	return b.String()
}
