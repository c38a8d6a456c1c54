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

// version is the version that the servers report: the release whose behaviour they have,
// and its build date.
const version = "3.8.0-zktest, built on 2022-02-25 08:49 UTC"

// words are the four-letter words, each with the function that returns its answer. The
// callers of these functions hold the ensemble's mu.
var words = map[string]func(*Server) string{
	"ruok": func(*Server) string { return "imok" },
	"srvr": whileServing((*Server).srvr),
	"stat": whileServing((*Server).stat),
	"mntr": whileServing((*Server).mntr),
	"cons": whileServing((*Server).cons),
	"dump": whileServing((*Server).dump),
	"conf": whileServing((*Server).conf),
	"wchs": whileServing((*Server).wchs),
	"wchc": whileServing((*Server).wchc),
	"wchp": whileServing((*Server).wchp),
	"isro": (*Server).isro,
	"envi": func(*Server) string { return "Environment:\nzookeeper.version=" + version + "\n" },
}

// whileServing returns a function that calls answer while the server serves, and
// otherwise returns ZooKeeper's answer of a server without a leader.
func whileServing(answer func(*Server) string) func(*Server) string {
	return func(s *Server) string {
		if !s.serving {
			return "This ZooKeeper instance is not currently serving requests\n"
		}
		return answer(s)
	}
}

// mode returns the role that a serving server believes it has.
func (s *Server) mode() string {
	switch {
	case len(s.ensemble.servers) == 1:
		return "standalone"
	case s == s.ensemble.leader, s.replaced:
		return "leader"
	}
	return "follower"
}

func (s *Server) countNodes() (n, bytes int) {
	s.tree.Walk(func(path string, data []byte, _ wire.Stat) {
		n++
		bytes += len(path) + len(data)
	})
	return n, bytes
}

func (s *Server) srvr() string {
	return "Zookeeper version: " + version + "\n" + s.statistics()
}

func (s *Server) statistics() string {
	nodes, _ := s.countNodes()
	return fmt.Sprintf("Latency min/avg/max: 0/0.0/0\nReceived: %d\nSent: %d\nConnections: %d\nOutstanding: %d\nZxid: 0x%x\nMode: %s\nNode count: %d\n",
		s.total.received, s.total.sent, len(s.conns), len(s.waiting), s.zxid, s.mode(), nodes)
}

// isro answers whether the server is read-only. None is; a server without a leader
// answers as in ZooKeeper.
func (s *Server) isro() string {
	if !s.serving {
		return "null"
	}
	return "rw"
}

// conf returns the configuration. The folders and their sizes are placeholders, and so
// are the ports between servers, which are 0.
func (s *Server) conf() string {
	e := s.ensemble
	_, port, _ := splitAddr(s.addr)
	var b strings.Builder
	row := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	id := 0
	if len(e.servers) > 1 {
		id = s.id
	}
	row("clientPort", port)
	row("secureClientPort", -1)
	row("dataDir", "/memory/version-2")
	row("dataDirSize", 0)
	row("dataLogDir", "/memory/version-2")
	row("dataLogSize", 0)
	row("tickTime", e.opts.Tick.Milliseconds())
	row("maxClientCnxns", 0)
	row("minSessionTimeout", 2*e.opts.Tick.Milliseconds())
	row("maxSessionTimeout", 20*e.opts.Tick.Milliseconds())
	row("clientPortListenBacklog", -1)
	row("serverId", id)
	if id == 0 {
		return b.String()
	}
	row("initLimit", e.opts.SyncLimit)
	row("syncLimit", e.opts.SyncLimit)
	row("electionAlg", 3)
	row("electionPort", 0)
	row("quorumPort", 0)
	row("peerType", 0)
	b.WriteString("membership: \n")
	for i, other := range e.servers {
		host, _, _ := splitAddr(other.addr)
		fmt.Fprintf(&b, "server.%d=%s:0:0:participant\n", i+1, host)
	}
	b.WriteString("version=0")
	return b.String()
}

// wchs, as wchc and wchp, reports data watches only, as in ZooKeeper.
func (s *Server) wchs() string {
	return fmt.Sprintf("%d connections watching %d paths\nTotal watches:%d\n", len(s.data.byConn), len(s.data.byPath), s.data.count())
}

func (s *Server) wchc() string {
	var b strings.Builder
	for _, c := range inOrder(s.data.byConn) {
		fmt.Fprintf(&b, "0x%x\n", uint64(c.session.id)) //nolint:gosec // as ZooKeeper prints it
		for _, path := range slices.Sorted(maps.Keys(s.data.byConn[c])) {
			fmt.Fprintf(&b, "\t%s\n", path)
		}
	}
	return b.String() + "\n"
}

func (s *Server) wchp() string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s.data.byPath)) {
		b.WriteString(path + "\n")
		for _, c := range inOrder(s.data.byPath[path]) {
			fmt.Fprintf(&b, "\t0x%x\n", uint64(c.session.id)) //nolint:gosec // as ZooKeeper prints it
		}
	}
	return b.String() + "\n"
}

func (s *Server) stat() string {
	var b strings.Builder
	b.WriteString("Zookeeper version: " + version + "\nClients:\n")
	for _, c := range s.connsByAddress() {
		fmt.Fprintf(&b, " %s\n", c.summary())
	}
	return b.String() + "\n" + s.statistics()
}

// summary returns the connection's entry in stat and cons.
func (c *conn) summary() string {
	known := 0
	if c.session != nil {
		known = 1
	}
	return fmt.Sprintf("/%s[%d](queued=%d,recved=%d,sent=%d)", c.remote, known, len(c.waiting), c.counts.received, c.counts.sent)
}

// connsByAddress returns the server's connections, sorted by their clients' addresses.
func (s *Server) connsByAddress() []*conn {
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *conn) int { return cmp.Compare(a.remote, b.remote) })
	return all
}

func (s *Server) cons() string {
	var b strings.Builder
	for _, c := range s.connsByAddress() {
		line := c.summary()
		if c.session != nil {
			line = fmt.Sprintf("%s,sid=0x%x,lop=NA,est=0,to=%d,lcxid=0x0,lzxid=0x%x,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)",
				strings.TrimSuffix(line, ")"), uint64(c.session.id), c.timeout.Milliseconds(), s.zxid) //nolint:gosec // as ZooKeeper prints it
		}
		fmt.Fprintf(&b, " %s\n", line)
	}
	return b.String() + "\n"
}

func (s *Server) mntr() string {
	nodes, bytes := s.countNodes()
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
	for _, c := range s.connsByAddress() {
		expires, id := int64(0), int64(0)
		if c.session != nil {
			expires, id = c.session.expires, c.session.id
		}
		conns.add(expires, fmt.Sprintf("ip: /%s sessionId: 0x%x", c.remote, uint64(id))) //nolint:gosec // as ZooKeeper prints it
	}
	b.WriteString("Connections dump:\nConnections " + conns.String())
	return b.String()
}

// expirySets are descriptions of what expires, by the tick of the expiry.
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
