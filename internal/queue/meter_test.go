// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const loadTimeout = 6 * time.Second // of which T/6, T/8, T/12 and T/24 are round

// crowded runs a test against an ensemble in fake time.
func crowded(t *testing.T, opts zktest.Options, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		opts.InMemory = true
		if opts.Tick == 0 {
			opts.Tick = loadTimeout / 4
		}
		ensemble, err := zktest.Run(t.Context(), &opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble})
	})
}

// loaded connects a client that ends with the test.
func (s servers) loaded(opts recipes.Options) *recipes.Client {
	s.Helper()
	if opts.SessionTimeout == 0 {
		opts.SessionTimeout = loadTimeout
	}
	if opts.Dial == nil {
		opts.Dial = s.Dial
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	client, err := recipes.Connect(s.Context(), s.Addrs(), &opts)
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	return client
}

func (s servers) queue(client *recipes.Client, path string) *queue.Queue {
	s.Helper()
	queue, err := queue.New(client, path, nil)
	require.NoError(s, err)
	return queue
}

// holds claims a path that has no other contender.
func (s servers) holds(client *recipes.Client, path string) *recipes.Claim {
	s.Helper()
	claim, err := s.queue(client, path).Claim(s.Context())
	require.NoError(s, err)
	return claim
}

// queued waits until a path has so many contenders, for limit at most.
func (s servers) queued(path string, n int, limit time.Duration) {
	s.Helper()
	for began := time.Now(); ; time.Sleep(loadTimeout / 1000) {
		names, err := s.Children(path)
		if err == nil && len(names) == n {
			return
		}
		require.Less(s, time.Since(began), limit, "%d of %d contenders of %s", len(names), n, path)
	}
}

// sum adds up the requests that a rule has counted.
func sum(i *zktest.Interceptor) (requests int) {
	for _, c := range i.Counts() {
		requests += c.Requests
	}
	return requests
}

// A meter makes connections that take as long as a network, and a processor that is
// not the fastest: each frame to a server takes perFrame, and each byte back perByte.
// It records the requests in flight when a heartbeat is sent.
type meter struct {
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	perFrame time.Duration
	perByte  time.Duration

	mu         sync.Mutex // guards what follows
	received   int        // bytes
	heartbeats int
	size       int // of the largest heartbeat
	ahead      int // most ordinary requests that were not answered as a heartbeat was sent
	inFlight   int // most ordinary requests at the same time
}

// metered is a network of 10 MB/s and 5 ms in each direction, and a processor that is
// busy with other things: 250 µs for each request.
func metered(e *zktest.Ensemble) *meter {
	link := e.Link()
	link.Delay(5 * time.Millisecond)
	return &meter{dial: link.Dial, perFrame: 250 * time.Microsecond, perByte: 100 * time.Nanosecond}
}

func (m *meter) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := m.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &meteredConn{Conn: conn, meter: m, pending: make(map[int32]bool)}, nil
}

func (m *meter) read() (received, heartbeats, size, ahead, inFlight int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.received, m.heartbeats, m.size, m.ahead, m.inFlight
}

type meteredConn struct {
	net.Conn
	meter *meter

	// Guarded by meter.mu.
	greeted bool
	pending map[int32]bool // xids of ordinary requests without an answer

	// Of the reader.
	head []byte // of the frame that is being read, up to its xid
	left int    // bytes of it, once they are known
}

// Write takes one frame.
func (c *meteredConn) Write(p []byte) (int, error) {
	time.Sleep(c.meter.perFrame)
	c.note(p)
	return c.Conn.Write(p)
}

func (c *meteredConn) note(p []byte) {
	m := c.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if !c.greeted {
		c.greeted = true
		return
	}
	xid := int32(binary.BigEndian.Uint32(p[4:]))
	switch {
	case xid < 0: // a ping
	case isHeartbeat(p[8:]):
		m.heartbeats++
		m.size = max(m.size, len(p)-4)
		m.ahead = max(m.ahead, len(c.pending))
	default:
		c.pending[xid] = true
		m.inFlight = max(m.inFlight, len(c.pending))
	}
}

// isHeartbeat reports whether a request, from its operation on, is a transaction of
// checks alone.
func isHeartbeat(p []byte) bool {
	const multi, check = 14, 13
	if binary.BigEndian.Uint32(p) != multi {
		return false
	}
	p = p[4:]
	for binary.BigEndian.Uint32(p) == check {
		p = p[9:]                                 // type, done, error
		p = p[8+int(binary.BigEndian.Uint32(p)):] // path, version
	}
	return int32(binary.BigEndian.Uint32(p)) == -1
}

func (c *meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(time.Duration(n) * c.meter.perByte)
	c.meter.mu.Lock()
	c.meter.received += n
	c.meter.mu.Unlock()
	for p = p[:n]; len(p) > 0; {
		if c.left == 0 {
			k := min(8-len(c.head), len(p))
			c.head = append(c.head, p[:k]...)
			p = p[k:]
			if len(c.head) < 8 {
				break
			}
			c.left = int(binary.BigEndian.Uint32(c.head)) - 4
			xid := int32(binary.BigEndian.Uint32(c.head[4:]))
			c.head = c.head[:0]
			c.meter.mu.Lock()
			delete(c.pending, xid)
			c.meter.mu.Unlock()
		}
		k := min(c.left, len(p))
		c.left -= k
		p = p[k:]
	}
	return n, err
}

// A pulse records how long heartbeats took.
type pulse struct {
	mu      sync.Mutex // guards what follows
	longest time.Duration
	failed  []error
}

func (p *pulse) beat(e recipes.SessionEvent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest = max(p.longest, e.RoundTrip)
	if e.Err != nil {
		p.failed = append(p.failed, e.Err)
	}
}

func (p *pulse) slowest() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.longest
}
