// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// ratio measures the cycles of ours and of bare on the same servers. Each call of ours or bare runs a short slice and returns
// its number of cycles. The two alternate and ratio compares their medians, so that a disturbance affects both or neither. It
// reports the ratio of our rate to the bare one. An op is a cycle of ours, an iteration one slice of each.
func ratio(b *testing.B, ours, bare func() int) (cycles int) {
	b.Helper()
	var took, bareTook []float64 // for one cycle, in nanoseconds
	run := func() {
		began := time.Now()
		n := ours()
		took = append(took, float64(time.Since(began))/float64(n))
		cycles += n
	}
	runBare := func() {
		began := time.Now()
		n := bare()
		bareTook = append(bareTook, float64(time.Since(began))/float64(n))
	}
	for oursFirst := true; b.Loop(); oursFirst = !oursFirst {
		if oursFirst {
			run()
			runBare()
		} else {
			runBare()
			run()
		}
	}
	median := func(all []float64) float64 {
		slices.Sort(all)
		return all[len(all)/2]
	}
	b.ReportMetric(median(took), "ns/op")
	b.ReportMetric(median(bareTook), "bare-ns/op")
	b.ReportMetric(median(bareTook)/median(took), "ratio")
	return cycles
}

// onBoth runs a benchmark on one server and on three.
func onBoth(b *testing.B, bench func(b *testing.B, s *env)) {
	b.Helper()
	b.Run("servers=1", func(b *testing.B) { bench(b, onOne(b)) })
	b.Run("servers=3", func(b *testing.B) { bench(b, onThree(b)) })
}

// atServer returns a client of one server. Its timeout is so long that it sends no ping while requests are counted.
func (s *env) atServer(i int) *recipes.Client {
	s.T.Helper()
	servers := s.ensemble.Addrs()
	return s.Connect(recipes.Options{SessionTimeout: time.Minute}, servers[i%len(servers)])
}

// bareAt returns a bare connection to one server. It is closed when the benchmark ends.
func (s *env) bareAt(i int) *zk.Conn {
	s.T.Helper()
	servers := s.ensemble.Addrs()
	conn := s.Bare(servers[i%len(servers)])
	s.T.Cleanup(conn.Close)
	return conn
}

// parent creates the path of that name and returns it.
func (s *env) parent(name string) string {
	s.T.Helper()
	_, err := s.ZK.Create(s.Path(name), nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(s.T, err)
	return s.Path(name)
}

// bareCycle does the minimum of a lock cycle: it creates a node and deletes it.
func bareCycle(conn *zk.Conn, parent string) error {
	path, err := conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return err
	}
	return conn.Delete(path, -1)
}

// cycle acquires and releases a lock.
func cycle(s *env, mu *lock.Mutex) error {
	hold, err := mu.Lock(s.Ctx)
	if err != nil {
		return err
	}
	return hold.Unlock(s.Ctx)
}

func BenchmarkUncontendedCycle(b *testing.B) {
	onBoth(b, func(b *testing.B, s *env) {
		client, conn := s.atServer(0), s.bareAt(0)
		s.parent("lock")
		mu, parent := s.Mutex(client, "lock"), s.parent("bare")
		require.NoError(b, cycle(s, mu)) // the client knows the path from here on
		server := s.ensemble.Servers()[0]
		before := s.received(server, client)
		cycles := ratio(b,
			func() int { return together(b, 1, 20, func(int) error { return cycle(s, mu) }) },
			func() int { return together(b, 1, 20, func(int) error { return bareCycle(conn, parent) }) })
		b.ReportMetric(float64(s.received(server, client)-before)/float64(cycles), "requests/cycle")
	})
}

func Benchmark64LocksOnOneSession(b *testing.B) {
	const locks = 64
	onBoth(b, func(b *testing.B, s *env) {
		client, conn := s.atServer(0), s.bareAt(0)
		var mutexes []*lock.Mutex
		var parents []string
		for i := range locks {
			s.parent(fmt.Sprint("lock-", i))
			mutexes = append(mutexes, s.Mutex(client, fmt.Sprint("lock-", i)))
			parents = append(parents, s.parent(fmt.Sprint("bare-", i)))
			require.NoError(b, cycle(s, mutexes[i]))
		}
		ratio(b,
			func() int { return together(b, locks, 5, func(i int) error { return cycle(s, mutexes[i]) }) },
			func() int { return together(b, locks, 5, func(i int) error { return bareCycle(conn, parents[i]) }) })
	})
}

func BenchmarkContendedHandOff(b *testing.B) {
	const sessions = 32
	onBoth(b, func(b *testing.B, s *env) {
		s.parent("lock")
		parent := s.parent("bare")
		var mutexes []*lock.Mutex
		var conns []*zk.Conn
		for i := range sessions {
			mutexes = append(mutexes, s.Mutex(s.atServer(i), "lock"))
			require.NoError(b, cycle(s, mutexes[i]))
			conns = append(conns, s.bareAt(i))
		}
		ratio(b,
			func() int { return together(b, sessions, 5, func(i int) error { return cycle(s, mutexes[i]) }) },
			func() int {
				return together(b, sessions, 5, func(i int) error { return bareHandOff(conns[i], parent) })
			})
	})
}

// bareHandOff is a minimal lock: each contender waits for the node with the number before its own, and does not list the
// others. It works only while no contender leaves the queue.
func bareHandOff(conn *zk.Conn, parent string) error {
	path, err := conn.Create(parent+"/lock-", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
	if err != nil {
		return err
	}
	for {
		gone, err := watchBefore(conn, path)
		if errors.Is(err, zk.ErrNoNode) {
			return conn.Delete(path, -1)
		}
		if err != nil {
			return err
		}
		if ev := <-gone; ev.Err != nil {
			return ev.Err
		}
	}
}

// watchBefore watches the node with the number before path's.
func watchBefore(conn *zk.Conn, path string) (gone <-chan zk.Event, err error) {
	i := strings.LastIndexByte(path, '-') + 1
	number, err := strconv.Atoi(path[i:])
	if err != nil {
		return nil, err
	}
	_, _, gone, err = conn.GetW(fmt.Sprintf("%s%010d", path[:i], number-1))
	return gone, err
}

// together runs n cycles of each worker, all workers at the same time, and returns the number of cycles.
func together(b *testing.B, workers, n int, cycle func(worker int) error) int {
	b.Helper()
	var working sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		working.Go(func() {
			for range n {
				if errs[i] = cycle(i); errs[i] != nil {
					return
				}
			}
		})
	}
	working.Wait()
	for _, err := range errs {
		require.NoError(b, err)
	}
	return workers * n
}
