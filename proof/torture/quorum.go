// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

// pulseNode is the node to which the harness writes, outside the contenders' paths.
const pulseNode = "/torture-pulse"

// A quorum finds out when there is one: it writes through each server, one write after the other, all the time. While none is
// answered, the ensemble serves no contender either. Nor does it while the harness is not scheduled: the links pass through it.
type quorum struct {
	scale  clock.Scale
	period time.Duration // between an answer and the next write to the server
	limit  time.Duration // without any answer, for which there is a quorum
	conns  []*zk.Conn
	beats  sync.WaitGroup
	stop   chan struct{} // closed when no further write may begin

	mu     sync.Mutex // guards what follows
	began  history.Instant
	last   history.Instant // answer
	silent []silence       // in any order
}

// A silence is a time without an answer.
type silence struct{ from, to history.Instant }

// observeQuorum begins to write to servers.
func observeQuorum(scale clock.Scale, servers []string, timeout time.Duration) (*quorum, error) {
	q := &quorum{
		scale: scale, period: timeout / 16, limit: timeout / 8, stop: make(chan struct{}),
		began: scale.Now(), last: scale.Now(),
	}
	q.beats.Go(func() {
		scale.Gaps(timeout/32, q.stop, func(from, to time.Duration) { q.add(history.Instant(from), history.Instant(to)) })
	})
	for _, server := range servers {
		// The client pauses for a second after each round of its list.
		list := slices.Repeat([]string{server}, 100)
		conn, events, err := zk.Connect(list, timeout, zk.WithLogger(silent{}), zk.WithDialer(q.dial))
		if err != nil {
			q.close()
			return nil, fmt.Errorf("quorum: %w", err)
		}
		q.conns = append(q.conns, conn)
		q.beats.Go(func() {
			for range events {
			}
		})
		q.beats.Go(func() { q.beat(conn) })
	}
	return q, nil
}

// dial connects to a server, not too often.
func (q *quorum) dial(network, address string, _ time.Duration) (net.Conn, error) {
	clock.Sleep(20 * time.Millisecond)
	return net.DialTimeout(network, address, q.limit)
}

// beat writes through one server.
func (q *quorum) beat(conn *zk.Conn) {
	for {
		_, err := conn.Set(pulseNode, nil, -1)
		if errors.Is(err, zk.ErrNoNode) {
			_, err = conn.Create(pulseNode, nil, 0, zk.WorldACL(zk.PermAll))
		}
		if err == nil {
			q.answered()
		}
		select {
		case <-q.stop:
			return
		case <-time.After(q.period):
		}
	}
}

// answered records an answer, and the time without one that it ends.
func (q *quorum) answered() {
	now := q.scale.Now()
	q.mu.Lock()
	last := q.last
	q.last = now
	q.mu.Unlock()
	if now-last > history.Instant(q.limit) {
		q.add(last, now)
	}
}

func (q *quorum) add(from, to history.Instant) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.silent = append(q.silent, silence{from, to})
}

// observed returns when there was a quorum until now.
func (q *quorum) observed() []history.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	silent, now := slices.Clone(q.silent), q.scale.Now()
	if now-q.last > history.Instant(q.limit) {
		silent = append(silent, silence{q.last, now})
	}
	slices.SortFunc(silent, func(a, b silence) int { return cmp.Compare(a.from, b.from) })
	events := []history.Event{{At: q.began, Kind: history.Quorum}}
	for i := 0; i < len(silent); {
		from, to := silent[i].from, silent[i].to
		for i++; i < len(silent) && silent[i].from <= to; i++ {
			to = max(to, silent[i].to)
		}
		events = append(events, history.Event{At: from, Kind: history.NoQuorum}, history.Event{At: to, Kind: history.Quorum})
	}
	return events
}

// close ends the writes.
func (q *quorum) close() {
	close(q.stop)
	for _, conn := range q.conns {
		conn.Close()
	}
	q.beats.Wait()
}
