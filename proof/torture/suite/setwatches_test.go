// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	opExists     = 3
	opSetWatches = 101
	throttled    = -127 // ThrottledOp: the server is overloaded, and has not carried the request out
)

// isSetWatches reports whether a request sets watches again.
func isSetWatches(frame []byte) bool {
	return len(frame) >= 8 && binary.BigEndian.Uint32(frame[4:]) == opSetWatches
}

// The client sets its watches again in packets of 128 KiB. The connection ends after the answer to the first one, and the server
// has written all nodes by then.
func TestConnectionThatEndsBetweenPacketsOfWatchesLosesNoEvent(t *testing.T) {
	t.Parallel()
	const nodes = 1000
	s := onOne(t)
	dials := newDialSwitch()
	client, proxies := s.behindProxies(recipes.Options{SessionTimeout: 30 * time.Second, Dial: dials.dial})

	path := func(i int) string { return s.Path(fmt.Sprintf("%s-%d", strings.Repeat("x", 250), i)) }
	inTurn(s, nodes, func(i int) any {
		return &zk.CreateRequest{Path: path(i), Acl: zk.WorldACL(zk.PermAll)}
	})
	events := make([]<-chan zk.Event, nodes)
	var watching sync.WaitGroup
	for first := range 16 {
		watching.Go(func() {
			for i := first; i < nodes; i += 16 {
				_, _, event, err := client.Conn().GetW(path(i))
				if err != nil {
					t.Errorf("watch: %v", err)
					return
				}
				events[i] = event
			}
		})
	}
	watching.Wait()
	if t.Failed() {
		return
	}

	var packets atomic.Int32
	lost := proxies[0].LoseReply(func(frame []byte) bool { return isSetWatches(frame) && packets.Add(1) == 2 })
	dials.block()
	proxies[0].Reset()
	inTurn(s, nodes, func(i int) any { return &zk.SetDataRequest{Path: path(i), Data: []byte("changed"), Version: -1} })
	dials.allow()
	await(s, lost)

	reported := 0
	defer func() { t.Logf("%d of %d changes were reported", reported, nodes) }()
	s.Eventually("all changes are reported", func() bool {
		for i, event := range events {
			select {
			case ev := <-event:
				require.Equal(t, zk.EventNodeDataChanged, ev.Type, "the session goes on")
				events[i] = nil
				reported++
			default:
			}
		}
		return reported == nodes
	})
}

// inTurn carries out n operations, in transactions of 500.
func inTurn(s *env, n int, op func(i int) any) {
	s.T.Helper()
	for first := 0; first < n; first += 500 {
		var ops []any
		for i := first; i < min(n, first+500); i++ {
			ops = append(ops, op(i))
		}
		_, err := s.ZK.Multi(ops...)
		require.NoError(s.T, err)
	}
}

// ZooKeeper 3.8.0 does not throttle. The connection puts another request in the place of the packet, and its error into the
// answer.
func TestRefusedSetWatchesWakesTheWaiters(t *testing.T) {
	t.Parallel()
	s := onOne(t)
	holder := s.Lock(s.Mutex(s.Connect(recipes.Options{}), "lock"))
	refusals := &refusals{left: 1}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &refusingConn{Conn: conn, refusals: refusals, r: bufio.NewReader(conn)}, nil
	}
	client, proxies := s.behindProxies(recipes.Options{Dial: dial})
	mu := s.Mutex(client, "lock")
	granted := make(chan error, 1)
	go func() {
		hold, err := mu.Lock(s.Ctx)
		if err == nil {
			err = hold.Unlock(s.Ctx)
		}
		granted <- err
	}()
	s.Waiting("lock", 2)
	var reset time.Time
	s.Eventually("a packet of watches is refused", func() bool {
		if time.Since(reset) > time.Second { // again: before the first, the watches may not have been set
			proxies[0].Reset()
			reset = time.Now()
		}
		return refusals.count() == 1
	})

	began := time.Now()
	s.Unlock(holder)
	require.NoError(t, await(s, granted))
	t.Logf("granted %v after the release", time.Since(began))
}

// refusals are the packets of watches that connections refuse.
type refusals struct {
	mu    sync.Mutex // guards what follows
	left  int
	xids  map[uint32]bool // of those that are refused
	total int
}

func (r *refusals) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.total
}

// refuse reports whether a packet is to be refused.
func (r *refusals) refuse(frame []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !isSetWatches(frame) || r.left == 0 {
		return false
	}
	r.left--
	r.xids = map[uint32]bool{binary.BigEndian.Uint32(frame): true}
	return true
}

// refused reports whether a frame is the answer to a packet that is refused.
func (r *refusals) refused(frame []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	xid := binary.BigEndian.Uint32(frame)
	if !r.xids[xid] {
		return false
	}
	delete(r.xids, xid)
	r.total++
	return true
}

// A refusingConn answers ThrottledOp to packets of watches.
type refusingConn struct {
	net.Conn
	*refusals
	r     *bufio.Reader
	frame []byte // what is left of the last one
}

// Write is called once for each packet.
func (c *refusingConn) Write(p []byte) (int, error) {
	if len(p) < 12 || !c.refuse(p[4:]) {
		return c.Conn.Write(p)
	}
	other := append([]byte(nil), p[4:8]...)
	other = binary.BigEndian.AppendUint32(other, opExists)
	other = append(binary.BigEndian.AppendUint32(other, 1), '/', 0)
	_, err := c.Conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(other))), other...))
	return len(p), err
}

func (c *refusingConn) Read(p []byte) (int, error) {
	if len(c.frame) == 0 {
		head := make([]byte, 4)
		if _, err := io.ReadFull(c.r, head); err != nil {
			return 0, err
		}
		body := make([]byte, binary.BigEndian.Uint32(head))
		if _, err := io.ReadFull(c.r, body); err != nil {
			return 0, err
		}
		if c.refused(body) {
			const header = 4 + 8 + 4
			body = binary.BigEndian.AppendUint32(body[:header-4], 1<<32+throttled)
			binary.BigEndian.PutUint32(head, header)
		}
		c.frame = append(head, body...)
	}
	n := copy(p, c.frame)
	c.frame = c.frame[n:]
	return n, nil
}
