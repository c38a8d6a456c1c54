// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The load of these benchmarks, all of it on one replica.
const (
	crowd   = 1000   // waiters on one key
	leases  = 10_000 // that are live at the same time
	callers = 32     // that renew them

	poll    = 20 * time.Second // of a waiter
	longTTL = `, "ttlMillis": 600000`
)

// A bench is one replica and a library's client over the same servers. ZK_SERVERS names the servers; without it,
// they run in this process.
type bench struct {
	*replica
	b       *testing.B
	library *recipes.Client
	root    string
	traffic *traffic // of the replica; nil if it is not counted

	unavailable atomic.Int64 // answers that left an outcome unknown
}

// newBench starts a replica. If counted, its traffic passes a proxy that counts it.
func newBench(b *testing.B, counted bool) *bench {
	b.Helper()
	var servers []string
	if list := os.Getenv(zktest.ServersVariable); list != "" {
		servers = strings.Split(list, ",")
	} else {
		b.Logf("%s is not set: the server runs in this process", zktest.ServersVariable)
		servers = zktest.Start(b, nil).Addrs()
	}
	client, err := recipes.Connect(b.Context(), servers, &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	b.Cleanup(func() { client.Close() })
	s := &bench{b: b, library: client, root: fmt.Sprintf("/bench-%d", time.Now().UnixNano())}
	if counted {
		s.traffic = countTraffic(b, servers[0])
		servers = []string{s.traffic.addr()}
	}
	folder := b.TempDir()
	principals := fmt.Sprintf(`{"principals": [{"name": "team", "tokens": [%q], "namespaces": ["team"], "roles": ["client"],
		"limits": {"requestsPerSecond": 1e6, "burst": 1000000, "waiters": %d}}]}`, hash("team"), 2*crowd)
	principalsFile, keysFile := filepath.Join(folder, "principals.json"), filepath.Join(folder, "keys")
	require.NoError(b, os.WriteFile(principalsFile, []byte(principals), 0o600))
	require.NoError(b, os.WriteFile(keysFile, []byte(strings.Repeat("c0", 32)), 0o600))
	s.replica = start(b, service.Config{
		Servers: servers, Root: s.root, Principals: principalsFile, TokenKeys: keysFile,
	})
	s.client.Transport.(*http.Transport).MaxIdleConnsPerHost = 2 * crowd
	b.Cleanup(func() {
		if n := s.unavailable.Load(); n > 0 {
			b.Logf("%d requests were repeated, because their outcome was unknown: this machine is too busy", n)
		}
	})
	return s
}

// A granted is the part of an answer that the benchmarks need.
type granted struct {
	LockToken string `json:"lockToken"`
	status    int
}

// call sends a request to a key, and returns its answer with the status. It repeats the request while the outcome is
// unknown, as it is when this machine is so busy that the replica's session ends.
func (s *bench) call(ctx context.Context, key, operation, body string) (g granted, err error) {
	for {
		g, text, err := s.exchange(ctx, key, operation, body)
		switch {
		case err != nil:
			return g, err
		case g.status == http.StatusServiceUnavailable:
			s.unavailable.Add(1)
			<-time.After(100 * time.Millisecond)
			continue
		case g.status == http.StatusGone && operation == "release" && s.unavailable.Load() > 0: // by the first attempt
			return g, nil
		case g.status >= http.StatusBadRequest:
			return g, fmt.Errorf("%s %s: %d %s", operation, key, g.status, text)
		}
		return g, json.Unmarshal(text, &g)
	}
}

func (s *bench) exchange(ctx context.Context, key, operation, body string) (g granted, text []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/locks/team/"+key+"/"+operation, strings.NewReader(body))
	if err != nil {
		return g, nil, err
	}
	req.Header.Set("Authorization", "Bearer team")
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return g, nil, err
	}
	text, err = io.ReadAll(res.Body)
	return granted{status: res.StatusCode}, bytes.TrimSpace(text), errors.Join(err, res.Body.Close())
}

// acquire acquires a lease. It repeats the request until the wait is over.
func (s *bench) acquire(ctx context.Context, key, owner, fields string) (granted, error) {
	for {
		g, err := s.call(ctx, key, "acquire", request(owner, "request of "+owner, fields))
		if err != nil || g.status == http.StatusOK {
			return g, err
		}
	}
}

func held(owner string, g granted, fields string) string {
	return fmt.Sprintf(`{"ownerId": %q, "lockToken": %q%s}`, owner, g.LockToken, fields)
}

// must is acquire, and fails the benchmark after an error.
func (s *bench) must(key, owner, fields string) granted {
	s.b.Helper()
	g, err := s.acquire(s.b.Context(), key, owner, fields)
	require.NoError(s.b, err)
	return g
}

// times are the durations of one operation.
type times []time.Duration

// measure adds the duration of f.
func (t *times) measure(b *testing.B, f func() error) {
	b.Helper()
	began := time.Now()
	require.NoError(b, f())
	*t = append(*t, time.Since(began))
}

// report reports the median and the 99th percentile, in milliseconds.
func (t times) report(b *testing.B, name string) {
	b.Helper()
	slices.Sort(t)
	b.ReportMetric(float64(t[len(t)/2].Microseconds())/1000, name+"p50-ms")
	b.ReportMetric(float64(t[len(t)*99/100].Microseconds())/1000, name+"p99-ms")
}

// An op is an acquire and a release over HTTP, and one cycle of the library's lock for comparison. They alternate, so that a
// disturbance affects both or neither.
func BenchmarkAcquireAndRelease(b *testing.B) {
	s := newBench(b, false)
	mu, err := lock.New(s.library, fmt.Sprintf("/bench-library-%d", time.Now().UnixNano()), nil)
	require.NoError(b, err)
	cycle := func() error {
		g, err := s.acquire(b.Context(), "orders", "a", "")
		if err != nil {
			return err
		}
		_, err = s.call(b.Context(), "orders", "release", held("a", g, ""))
		return err
	}
	libraryCycle := func() error {
		hold, err := mu.Lock(b.Context())
		if err != nil {
			return err
		}
		return hold.Unlock(b.Context())
	}
	require.NoError(b, cycle())
	require.NoError(b, libraryCycle())
	var ours, library times
	for b.Loop() {
		ours.measure(b, cycle)
		library.measure(b, libraryCycle)
	}
	ours.report(b, "")
	library.report(b, "library-")
}

func BenchmarkRenew(b *testing.B) {
	s := newBench(b, false)
	g := s.must("orders", "a", "")
	var ours times
	for b.Loop() {
		ours.measure(b, func() error {
			_, err := s.call(b.Context(), "orders", "renew", held("a", g, ""))
			return err
		})
	}
	ours.report(b, "")
}

// An op is a queue of waiters on one key that is joined, watched for one poll of each and handed over from waiter to
// waiter. The waiters join at the same time, and so do their polls; or all are spread evenly over the length of a poll.
func BenchmarkWaitersOnOneKey(b *testing.B) {
	run := func(name string, spread time.Duration) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				newBench(b, true).crowd(spread)
			}
		})
	}
	run("joins=together", 0)
	run("joins=spread", poll)
}

// crowd measures a queue whose waiters join over that time.
func (s *bench) crowd(spread time.Duration) {
	b := s.b
	first := s.must("orders", "first", longTTL)
	var waiting sync.WaitGroup
	handOffs := &handOffs{released: make(chan time.Time, 1)}
	began := time.Now()
	for i := range crowd {
		owner := fmt.Sprint("waiter-", i)
		waiting.Go(func() {
			<-time.After(spread * time.Duration(i) / crowd)
			g, err := s.acquire(b.Context(), "orders", owner, longTTL+`, "waitMillis": 3600000`)
			if err == nil {
				handOffs.pass()
				_, err = s.call(b.Context(), "orders", "release", held(owner, g, ""))
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	s.joined("orders", crowd+1)
	b.ReportMetric(time.Since(began).Seconds(), "s-to-join")
	s.traffic.count()
	b.Logf("to join: %s", s.traffic)

	<-time.After(poll)
	s.traffic.count()
	b.ReportMetric(s.traffic.perSecond(s.traffic.requests), "requests/s")
	b.ReportMetric(s.traffic.perSecond(s.traffic.received)/1e3, "kB/s")
	b.Logf("while they wait: %s", s.traffic)

	handOffs.released <- time.Now()
	_, err := s.call(b.Context(), "orders", "release", held("first", first, ""))
	require.NoError(b, err)
	waiting.Wait()
	s.traffic.count()
	b.Logf("%d hand-offs: %s", crowd, s.traffic)
	handOffs.took.report(b, "hand-off-")
	require.NoError(b, s.stop())
}

// joined waits until a key has so many contenders.
func (s *bench) joined(key string, contenders int) {
	s.b.Helper()
	node, err := node.New(s.library, s.root+"/team/"+key)
	require.NoError(s.b, err)
	for {
		names, err := node.Children(s.b.Context())
		require.NoError(s.b, err)
		if len(names) == contenders {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}

// handOffs measures the time from a release to the grant of the next waiter.
type handOffs struct {
	released chan time.Time // when the lock was released last
	took     times          // guarded by the lock that is measured
}

// pass is called by each waiter when it has been granted the lock, before it releases it.
func (h *handOffs) pass() {
	now := time.Now()
	released := <-h.released
	h.took = append(h.took, now.Sub(released))
	h.released <- time.Now()
}

// An op is very many leases that are acquired and then renewed in turn.
func BenchmarkLiveLeases(b *testing.B) {
	for b.Loop() {
		s := newBench(b, false)
		s.must("warm", "a", "")
		tokens := make([]granted, leases)
		before := heap()
		began := time.Now()
		s.each(func(i int) (err error) {
			tokens[i], err = s.acquire(b.Context(), fmt.Sprint("key-", i), "a", longTTL)
			return err
		})
		b.ReportMetric(leases/time.Since(began).Seconds(), "acquires/s")
		ours := 0 // of this test
		for _, g := range tokens {
			ours += len(g.LockToken)
		}
		b.ReportMetric(float64(heap()-before-ours)/leases, "B/lease")
		renew := func(i int) error {
			_, err := s.call(b.Context(), fmt.Sprint("key-", i), "renew", held("a", tokens[i], longTTL))
			return err
		}
		began = time.Now()
		s.each(renew)
		b.ReportMetric(leases/time.Since(began).Seconds(), "renewals/s")
		b.ReportMetric(float64(heap()-before-ours)/leases, "B/renewed-lease")
		s.each(func(i int) error {
			_, err := s.call(b.Context(), fmt.Sprint("key-", i), "release", held("a", tokens[i], ""))
			return err
		})
		require.NoError(b, s.stop())
	}
}

// each calls f for each lease, on so many goroutines as there are callers.
func (s *bench) each(f func(i int) error) {
	s.b.Helper()
	var running sync.WaitGroup
	for caller := range callers {
		running.Go(func() {
			for i := caller; i < leases; i += callers {
				if err := f(i); err != nil {
					s.b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

// heap returns the size of live objects.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one has moved out of pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc) //nolint:gosec // far below the largest int
}
