// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"cmp"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/sasl"
	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The types in this file are the state of an ensemble: its servers, their connections, and
// the sessions and requests of clients. They refer to each other, and one mutex guards them.
// The other files contain the operations on that state.

// An Ensemble is one or several ZooKeeper servers in this process, with all data in
// memory. It is safe for concurrent use.
type Ensemble struct {
	opts    Options
	tb      TB // nil outside tests
	servers []*Server
	began   time.Time // the origin of ticks
	running sync.WaitGroup
	stop    chan struct{} // closed by Close
	commits *queue[Commit]
	rules   atomic.Pointer[[]*Interceptor] // the active interceptors, replaced under mu

	mu            sync.Mutex // guards what follows, and the servers, connections, links and sessions
	closed        bool
	leader        *Server // nil while no server leads
	epoch         int64   // of the leader
	zxid          int64   // of the last transaction
	log           log
	sessions      map[int64]*session
	sessionsMade  int64              // the number of sessions created so far
	conns         map[*conn]struct{} // whose goroutines run
	traps         traps
	electionTimer *time.Timer
	checked       time.Time       // the time of the last search for containers to delete
	toKill        []*conn         // killed once mu is released
	changed       chan struct{}   // closed at each change of an impairment, of the leader, and of what serves
	committed     chan struct{}   // closed at the next transaction; nil if nothing waits for it
	toWake        []chan struct{} // closed once mu is released
	toLog         []func()        // called once mu is released
	accepted      int64           // the number of connections accepted so far
	stepDownTimer *time.Timer     // fires when a leader without a quorum steps down
}

// A Server is one server of an ensemble. It is safe for concurrent use.
//
// The faults that take a context set a state, and setting the state that the server is in
// is no error: killing a killed server has no effect. They do not wait. They take a context
// and return an error as the same faults of real servers in package docker do.
type Server struct {
	ensemble *Ensemble
	id       int
	addr     string

	// Guarded by the ensemble's mu.
	listener       net.Listener // nil if there is none
	running        bool         // it is not stopped
	serving        bool         // it accepts handshakes and answers requests
	partition      partition    // of the network around it
	paused         bool         // its process is suspended
	isolated       bool         // no message passes between it and the other servers, for either reason
	replaced       bool         // it led when it was isolated, and does not know that the others elect another
	hung           bool         // new connections are never answered
	impairment     impairment
	lag            time.Duration
	lagTimer       *time.Timer
	isolationTimer *time.Timer // fires when it stops serving because it is isolated
	isolatedIn     int64       // the epoch in which it was isolated
	tree           *tree.Tree
	zxid           int64 // of the last transaction that it has applied
	next           int64 // the index of the log's entry that it applies next
	data           *watchTable
	children       *watchTable
	conns          map[*conn]struct{}      // that it serves
	pending        []*request              // waiting for the leader
	touched        map[int64]time.Duration // sessions heard since the leader's last ping, with their timeouts
	// remembered are the sessions that a replaced leader still considers alive.
	remembered map[int64]*session
	waiting    map[*conn]struct{} // with unanswered requests
	total      traffic            // since the server was started
}

// A conn is one client's connection to one server.
//
// Its reader always takes frames from the network, as an operating system would.
// Silence and delay are properties of the queues between the reader, the goroutine that
// carries requests out, and the writer.
type conn struct {
	server *Server
	number int64 // in the order of acceptance
	link   *Link // of the client, nil if it has none
	net    net.Conn
	socket net.Conn // below TLS, or the same
	remote string   // the client's address
	in     *queue[inbound]
	out    *queue[[]byte] // nil: the end
	slow   atomic.Int64   // nanoseconds by which each frame is delayed, in either direction
	// touched is the time of the last received bytes, in nanoseconds after the ensemble's
	// start.
	touched atomic.Int64

	// Guarded by the ensemble's mu.
	session       *session        // nil before the handshake
	timeout       time.Duration   // of the session, as the handshake negotiated it
	sawHandshake  bool            // the first frame has arrived
	knowsReadOnly bool            // the client knows of read-only servers
	unanswered    bool            // no request is carried out, since the server hung when it was made
	lost          bool            // nothing is sent any more
	ended         bool            // the server has dropped it: it has ended, or is about to
	identities    []tree.Identity // with which its requests are carried out
	sasl          *sasl.Server    // nil before the first token
	waiting       []*request      // not answered yet, in order
	waitingBytes  int             // size of the frames of these
	progress      *sync.Cond      // on the ensemble's mu: signalled when waitingBytes shrinks, a gate opens, or the connection ends
	counts        traffic
}

// traffic is what four-letter words report about a connection.
type traffic struct{ received, sent int64 }

// inbound is one item that a reader has read: a frame, a four-letter word or the end.
type inbound struct {
	frame []byte
	bad   error // why the frame is invalid
	word  string
	end   error
}

// A session is a client's session, as the leader knows it. It is guarded by the
// ensemble's mu.
type session struct {
	id           int64
	password     []byte
	firstTimeout time.Duration // timeout that its first handshake negotiated
	timeout      time.Duration // timeout that its last handshake negotiated
	server       *Server       // where it attached last; requests through any other server are rejected
	conn         *conn         // nil while it is detached
	expires      int64         // the tick at whose beginning it expires
	closing      bool          // it has expired, and its end waits for the leader's quorum
}

// A request is a client's request, until it is answered. A connection's requests are
// answered in order. It is guarded by the ensemble's mu.
type request struct {
	conn       *conn
	xid        int32
	op         wire.Op
	body       any
	size       int             // of its frame, without the length
	identities []tree.Identity // with which it is carried out
	quorum     bool            // the leader decides it
	proposed   bool            // it waits for the leader's quorum, and the session may move in the meantime
	decided    bool
	zxid       int64 // of the transaction that must have been applied before it is answered
	outcome    tree.Outcome
	session    *session // of a handshake: the session to answer with, nil if it has ended
	effects    *effects // of rules, nil for none
}

// opHandshake is the operation of a handshake, which has none in the protocol.
const opHandshake wire.Op = -2

// inOrder returns the connections of a set in order of acceptance, so that an action on
// several of them at the same instant has the same order in each run.
func inOrder[V any](set map[*conn]V) []*conn {
	all := slices.Collect(maps.Keys(set))
	slices.SortFunc(all, func(a, b *conn) int { return cmp.Compare(a.number, b.number) })
	return all
}

// A watchTable holds one kind of watches on one server: those for data, or those for
// children. A connection has at most one watch on a path, of the mode requested last: in
// ZooKeeper 3.8 too, a one-shot watch replaces a persistent one on the same path.
type watchTable struct {
	byPath    map[string]map[*conn]watchMode
	byConn    map[*conn]map[string]struct{}
	recursive int // number of recursive watches
}

// effects are the combined effects of the rules that apply to a request.
type effects struct {
	rules   []*Interceptor
	request Request // as the rules selected it
	code    wire.Code
	failsAt int // the operation of the transaction that fails, -1 for the whole request
	lose    Direction
	delay   time.Duration
	// The gates that the request waits for, and those that its reply waits for. They are
	// the rules' gates at the moment at which the rules applied, so that a later Release
	// is not missed.
	requestGates, replyGates []*gate
}

// A watchMode is the duration of a watch and the nodes that it covers.
type watchMode int

const (
	once       watchMode = iota // fires once
	persistent                  // fires until it is removed
	recursive                   // persistent, and covers all nodes below
)
