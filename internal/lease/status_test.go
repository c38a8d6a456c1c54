// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestStatusNamesContendersFrontFirst(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		_, err := r.Status(w.Context(), path)
		require.ErrorIs(w, err, lease.ErrNotFound)
		g := w.acquired(r, ask("a"))
		w.acquiring(w.Context(), r, waiting("b", time.Hour))
		status, err := r.Status(w.Context(), path)
		require.NoError(w, err)
		require.Len(w, status.Contenders, 2)
		require.Equal(w, g.Token, status.Contenders[0].Token)
		require.True(w, status.Contenders[0].Held)
		require.Equal(w, "b", status.Contenders[1].Owner)
		require.False(w, status.Contenders[1].Held)
	})
}

// An event stream reads the status at each change of the queue, and there may be many streams.
func TestCostOfStatusDoesNotGrowWithTheQueue(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		for i := range 30 {
			w.acquiring(w.Context(), r, waiting(fmt.Sprint(i), time.Hour))
		}
		var status lease.Status
		counts := w.requests(func() {
			var err error
			status, err = r.Status(w.Context(), path)
			require.NoError(w, err)
		})
		require.Equal(w, map[string]int{"getChildren": 1, "getData": 16}, counts)
		require.Len(w, status.Contenders, 16)
		require.Equal(w, "0", status.Contenders[0].Owner)
		require.Equal(w, 14, status.More)
	})
}

func TestListReturnsPathsWithContendersByPage(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		for _, key := range []string{"a1", "a2", "a3", "b1", "empty"} {
			req := ask("o")
			req.Path = "/locks/" + key
			g := w.acquired(r, req)
			if key == "empty" {
				require.NoError(w, r.Release(w.Context(), g.Ticket))
			}
		}
		names := func(prefix string, limit int, after string) (paths []string, next string) {
			page, next, err := r.List(w.Context(), "/locks", prefix, limit, after)
			require.NoError(w, err)
			for _, s := range page {
				paths = append(paths, s.Path)
			}
			return paths, next
		}
		paths, next := names("a", 2, "")
		require.Equal(w, []string{"/locks/a1", "/locks/a2"}, paths)
		require.Equal(w, "a2", next)
		paths, next = names("a", 2, next)
		require.Equal(w, []string{"/locks/a3"}, paths)
		require.Empty(w, next)
		paths, _ = names("", 10, "")
		require.Len(w, paths, 4)
		paths, _ = names("c", 10, "")
		require.Empty(w, paths)
	})
}

func TestEqualListsShareTheirRequests(t *testing.T) {
	const keys, callers = 50, 200
	simulated(t, func(w world) {
		r := w.replica()
		for i := range keys {
			req := ask("o")
			req.Path = fmt.Sprintf("/locks/%02d", i)
			w.acquired(r, req)
		}
		counts := w.requests(func() {
			var running sync.WaitGroup
			for range callers {
				running.Go(func() {
					page, _, err := r.List(w.Context(), "/locks", "", 1000, "")
					if err != nil || len(page) != keys {
						w.Errorf("%d of %d: %v", len(page), keys, err)
					}
				})
			}
			running.Wait()
		})
		w.Logf("%v", counts)
		require.LessOrEqual(w, counts["getChildren"], 5*(keys+1), "one page of each reader, and one of those that came meanwhile")
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		slow := w.Intercept(zktest.Rule{Op: "getChildren", Below: "/locks", Delay: time.Minute})
		defer slow.Remove()
		_, _, err := r.List(ctx, "/locks", "", 1000, "")
		require.ErrorIs(w, err, context.DeadlineExceeded)
	})
}

// A page is in memory until its readers have taken the answer.
func TestPageEndsWhenItsMetadataIsLargeAndLeadsToTheNext(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		const keys, size = 20, 200 << 10
		for i := range keys {
			req := ask("o")
			req.Path = fmt.Sprintf("/locks/a%02d", i)
			g := w.acquired(r, req)
			node := req.Path + "/" + g.Ticket.Node
			data, _, err := w.Get(node)
			require.NoError(w, err)
			data = append(bytes.TrimSuffix(data, []byte("}")), `,"metadata":{"m":"`+strings.Repeat("x", size)+`"}}`...)
			require.NoError(w, w.Set(node, data))
		}
		var paths []string
		pages, after := 0, ""
		for {
			page, next, err := r.List(w.Context(), "/locks", "", 1000, after)
			require.NoError(w, err)
			require.LessOrEqual(w, len(page)*size, 1<<20+size)
			for _, s := range page {
				require.Len(w, s.Contenders[0].Lease.Metadata["m"], size)
				paths = append(paths, s.Path)
			}
			pages++
			if after = next; after == "" {
				break
			}
		}
		require.Equal(w, 4, pages)
		require.Len(w, slices.Compact(paths), keys)
	})
}

// Otherwise a page would be as large as all of them together.
func TestPageHasTheMetadataOfHoldersOnly(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		for _, req := range []lease.Request{ask("a"), waiting("b", time.Hour)} {
			req.Metadata = map[string]string{"job": req.Owner}
			w.acquiring(w.Context(), r, req)
		}
		page, _, err := r.List(w.Context(), "/locks", "", 1000, "")
		require.NoError(w, err)
		require.Len(w, page, 1)
		require.Len(w, page[0].Contenders, 2)
		require.Equal(w, "a", page[0].Contenders[0].Lease.Metadata["job"])
		require.Equal(w, "b", page[0].Contenders[1].Owner)
		require.Empty(w, page[0].Contenders[1].Lease.Metadata)
		s, err := r.Status(w.Context(), path)
		require.NoError(w, err)
		require.Equal(w, "b", s.Contenders[1].Lease.Metadata["job"])
	})
}

// The paths of locks that were released remain for some time. A page that has to skip many of
// them would take longer than its caller waits, each time.
func TestPageEndsInTimeAndLeadsToTheNext(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		for i := range 20 {
			req := ask("o")
			req.Path = fmt.Sprintf("/locks/a%02d", i)
			require.NoError(w, r.Release(w.Context(), w.acquired(r, req).Ticket))
		}
		req := ask("o")
		req.Path = "/locks/b"
		w.acquired(r, req)
		slow := w.Intercept(zktest.Rule{Op: "getChildren", Below: "/locks", Delay: 500 * time.Millisecond})
		defer slow.Remove()
		var paths []string
		for after, calls := "", 0; ; calls++ {
			began := time.Now()
			page, next, err := r.List(w.Context(), "/locks", "", 100, after)
			require.NoError(w, err)
			require.Less(w, time.Since(began), 5*time.Second)
			for _, s := range page {
				paths = append(paths, s.Path)
			}
			if after = next; next == "" {
				require.Positive(w, calls)
				break
			}
		}
		require.Equal(w, []string{"/locks/b"}, paths)
	})
}

// watch yields the statuses of a path until ctx is done.
func watch(ctx context.Context, r *lease.Replica, path string) iter.Seq2[lease.Status, error] {
	return func(yield func(lease.Status, error) bool) {
		w := r.Watch(path)
		defer w.Close()
		for {
			select {
			case <-w.Changed():
			case <-ctx.Done():
				return
			}
			if !yield(w.Status()) {
				return
			}
		}
	}
}

func TestWatchYieldsEachChangeOfTheFront(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		ctx, cancel := context.WithCancel(w.Context())
		var seen []string
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for s, err := range watch(ctx, r, path) {
				if err != nil {
					w.Errorf("watch: %v", err)
				}
				front := "none"
				if len(s.Contenders) > 0 {
					front = s.Contenders[0].Owner
				}
				seen = append(seen, front)
			}
		}()
		settle := func() {
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		settle()
		g := w.acquired(r, ask("a"))
		settle()
		require.NoError(w, r.Release(w.Context(), g.Ticket))
		settle()
		w.acquired(r, ask("b"))
		settle()
		cancel()
		<-ended
		require.Equal(w, []string{"none", "a", "none", "b"}, seen)
	})
}

// A busy lock with many event streams would load the ensemble for all tenants otherwise.
func TestWatchersOfOnePathShareItsRequests(t *testing.T) {
	const watchers = 900
	simulated(t, func(w world) {
		r := w.replica()
		g := w.acquired(r, ask("a"))
		ctx, cancel := context.WithCancel(w.Context())
		var running sync.WaitGroup
		var seen atomic.Int64
		counts := func(path string, during func()) map[string]int {
			return w.requests(func() {
				for range watchers {
					running.Go(func() {
						for _, err := range watch(ctx, r, path) {
							if err != nil {
								w.Errorf("watch: %v", err)
							}
							seen.Add(1)
						}
					})
				}
				time.Sleep(time.Second)
				synctest.Wait()
				during()
			})
		}
		busy := counts(path, func() {
			require.EqualValues(w, watchers, seen.Load())
			for range 10 {
				_, err := r.Renew(w.Context(), time.Now(), g.Ticket, ttl)
				require.NoError(w, err)
				time.Sleep(time.Second)
			}
		})
		w.Logf("%v", busy)
		require.EqualValues(w, 11*watchers, seen.Load())
		require.LessOrEqual(w, busy["getChildren"]+busy["getData"], 12*5)
		missing := counts("/locks/missing", func() { time.Sleep(10 * time.Second) })
		w.Logf("%v", missing)
		require.LessOrEqual(w, missing["getChildren"], 15)
		require.EqualValues(w, 12*watchers, seen.Load())
		cancel()
		running.Wait()
	})
}

func TestWatchBeginsWithWhatIsThereAfterTheCall(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		first := func() lease.Status {
			for s, err := range watch(w.Context(), r, path) {
				require.NoError(w, err)
				return s
			}
			return lease.Status{}
		}
		go func() {
			for _, err := range watch(w.Context(), r, path) {
				_ = err // another user of the path
			}
		}()
		require.Empty(w, first().Contenders)
		w.acquired(r, ask("a"))
		require.Len(w, first().Contenders, 1)
	})
}

// The session would keep a watch of each key that is never locked, and set all of them again on
// each connection.
func TestWatchOfMissingQueueLeavesNoWatch(t *testing.T) {
	simulated(t, func(w world) {
		r := w.replica()
		watches := w.Intercept(zktest.Rule{Op: "exists"})
		for i := range 5 {
			ctx, cancel := context.WithTimeout(w.Context(), 3*time.Second)
			for s, err := range watch(ctx, r, fmt.Sprintf("/locks/%d", i)) {
				require.NoError(w, err)
				require.Empty(w, s.Contenders)
			}
			cancel()
		}
		require.Zero(w, watches.Fired())
	})
}
