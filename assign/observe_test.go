// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestObserveYieldsEachChangeOfTheAssignment(t *testing.T) {
	bubble(t, func(s servers) {
		observer := s.connect("observer", assign.Options{})
		ctx, stop := context.WithCancel(s.Context())
		seen := make(chan map[string]string, 100)
		ended := make(chan error, 1)
		go func() {
			for now, err := range observer.Observe(ctx) {
				if err != nil {
					ended <- err
					return
				}
				seen <- maps.Clone(now.Members)
				now.Members["p00000"] = "changed by the reader"
			}
		}()
		require.Empty(s, <-seen)
		a := s.start("a", assign.Options{Partitions: partitions(4)})
		require.Equal(s, map[string]string{"p00000": "a", "p00001": "a", "p00002": "a", "p00003": "a"}, <-seen)
		s.expire(observer)
		b := s.start("b", assign.Options{})
		time.Sleep(settled)
		var last map[string]string
		for len(seen) > 0 {
			last = <-seen
		}
		require.Equal(s, s.now(), last)
		a.mustStop()
		time.Sleep(settled)
		for len(seen) > 0 {
			last = <-seen
		}
		require.Equal(s, s.now(), last)
		b.mustStop()
		stop()
		require.ErrorIs(s, <-ended, context.Canceled)
	})
}

func TestObserveYieldsNoPartOfTransaction(t *testing.T) {
	for _, node := range []string{"assigned", "assigned/a", "assigned/b", "assigned/c"} {
		t.Run("late notification of "+node, func(t *testing.T) {
			bubble(t, func(s servers) {
				observer := s.connect("observer", assign.Options{})
				late := observer.link.Intercept(zktest.Rule{Op: "notification", Path: path + "/" + node, Delay: 50 * time.Millisecond})
				a := s.start("a", assign.Options{Partitions: partitions(10)})
				time.Sleep(settled)
				ctx, stop := context.WithCancel(s.Context())
				var seen []map[string]string
				var ended error
				var observing sync.WaitGroup
				observing.Go(func() {
					for now, err := range observer.Observe(ctx) {
						if seen, ended = append(seen, now.Members), err; err != nil {
							return
						}
					}
				})
				b := s.start("b", assign.Options{})
				time.Sleep(settled)
				c := s.start("c", assign.Options{})
				time.Sleep(settled)
				last := s.now()
				c.mustStop()
				time.Sleep(settled)
				b.mustStop()
				time.Sleep(settled)
				stop()
				observing.Wait()
				require.ErrorIs(s, ended, context.Canceled)
				seen = seen[:len(seen)-1]
				for _, members := range seen {
					require.Len(s, members, 10, "%v", members)
				}
				require.Contains(s, seen, last)
				require.Len(s, seen, 5)
				require.Positive(s, late.Fired())
				a.mustStop()
			})
		})
	}
}

func TestInvalidInputIsAnErrorThatNamesIt(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", assign.Options{})
		unfit := strings.Repeat("x", 128<<10-1) // it fits a path by itself
		for _, c := range []struct {
			client *recipes.Client
			path   string
			opts   *assign.Options
			want   string
		}{
			{nil, path, nil, "new assignment /assign: client is nil"},
			{a.client, "assign", nil, `new assignment: path "assign" is not absolute`},
			{a.client, path, &assign.Options{ID: "a/b"}, `ID "a/b" has a slash: set Options.ID`},
			{a.client, path, &assign.Options{ID: ".."}, `ID "..": `},
			{a.client, path, &assign.Options{ID: strings.Repeat("x", 257)}, "ID of 257 bytes is over the limit of 256"},
			{a.client, path, &assign.Options{ID: "a", Weight: -1}, "weight -1 is not between 1 and 1000000"},
			{a.client, path, &assign.Options{ID: "a", RejoinWait: -1}, "rejoin wait -1ns is negative"},
			{a.client, path, &assign.Options{ID: "a", RetryBackoff: time.Hour}, "maximum retry back-off 1m0s is below the retry back-off 1h0m0s"},
			{a.client, path, &assign.Options{ID: "a", Metadata: make([]byte, assign.MaxMetadata+1)}, "metadata of 32769 bytes is over the limit of 32768"},
			{a.client, path, &assign.Options{ID: "a", Partitions: []string{"p", "p"}}, `partition "p" occurs twice`},
			{a.client, path, &assign.Options{ID: "a", Partitions: []string{unfit}}, "of 131085 bytes is over the limit of 131072"},
			{a.client, path, &assign.Options{ID: "a", Partitions: []string{"p🔒"}}, `the character U+1F512, which ZooKeeper refuses`},
		} {
			_, err := assign.New(c.client, c.path, c.opts)
			require.ErrorContains(s, err, c.want)
		}
		long := make([]string, 3000)
		for i := range long {
			long[i] = fmt.Sprintf("%04d", i) + strings.Repeat("x", 200)
		}
		for want, names := range map[string][]string{
			"set partitions /assign/set: partition \"\": ":                     {""},
			`partition "a/b" has a slash`:                                      {"a/b"},
			`partition "p" occurs twice`:                                       {"p", "q", "p"},
			`partition "..": `:                                                 {".."},
			`ends like a contender's node`:                                     {"lock-0000000001"},
			"of 131085 bytes is over the limit of 131072":                      {"p", unfit},
			"10001 partitions are over the limit of 10000":                     partitions(assign.MaxPartitions + 1),
			"names of partitions of 621000 bytes are over the limit of 524288": long,
		} {
			require.ErrorContains(s, a.SetPartitions(s.Context(), names), want)
		}
		_, err := a.Owner(s.Context(), "a/b")
		require.ErrorContains(s, err, `owner: new queue /assign/owned/a/b: partition "a/b" has a slash`)
		require.ErrorContains(s, a.Run(s.Context(), nil), "run /assign: work is nil")
		require.ErrorContains(s, a.Run(nil, untilDone), "run /assign: context is nil") //nolint:staticcheck // that is the test
		require.ErrorContains(s, a.SetPartitions(nil, nil), "context is nil")          //nolint:staticcheck // that is the test
		for _, err := range a.Observe(nil) {                                           //nolint:staticcheck // that is the test
			require.ErrorContains(s, err, "context is nil")
		}
		_, _, err = s.Get(path)
		require.Error(s, err, "nothing was created")
	})
}

func TestSecondRunAndTakenIDAreRefused(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.start("a", assign.Options{Partitions: partitions(2)})
		time.Sleep(settled)
		require.ErrorContains(s, a.Run(s.Context(), untilDone), "/assign/members/a")
		other := s.start("a", assign.Options{})
		time.Sleep(time.Minute)
		require.Empty(s, other.Owned(), "it waits until the first has left")
		other.link.Refuse(true)
		other.link.Reset()
		time.Sleep(timeout / 8)
		other.stop()
		require.NoError(s, <-other.result, "it has created nothing")
		other.link.Refuse(false)
		other.run(untilDone)
		a.mustStop()
		time.Sleep(2 * settled)
		require.Len(s, other.Owned(), 2)
		other.mustStop()
	})
}

func TestSetThatWasStoredIsNotReplacedByOptions(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", assign.Options{Partitions: partitions(2)})
		s.must(a.SetPartitions(s.Context(), []string{"z"}))
		a.run(untilDone)
		time.Sleep(settled)
		require.Equal(s, []string{"z"}, names(a.Owned()))
		for n := range 6 {
			trap := a.link.LoseReply(n + 1)
			want := partitions(n + 1)
			s.must(a.SetPartitions(s.Context(), want))
			time.Sleep(2 * settled)
			require.Equal(s, want, slices.Sorted(maps.Keys(s.now())), "%v", trap)
		}
		s.must(a.SetPartitions(s.Context(), nil))
		time.Sleep(settled)
		require.Empty(s, s.now())
		a.mustStop()
		a.run(untilDone)
		time.Sleep(settled)
		require.Empty(s, s.now(), "an empty set is stored, too")
		a.mustStop()
	})
}

func TestPartitionsInNamespaceAndOwnershipThatCommits(t *testing.T) {
	bubble(t, func(s servers) {
		client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{SessionTimeout: timeout, Dial: s.Dial, Namespace: "/app", Owner: "host/1"})
		s.must(err)
		defer func() { s.must(client.Close()) }()
		a, err := assign.New(client, path, &assign.Options{ID: "a", Partitions: partitions(2)})
		s.must(err)
		require.Equal(s, "/app"+path, a.Path())
		_, err = assign.New(client, path, nil)
		require.ErrorContains(s, err, `ID "host/1" has a slash: set Options.ID`)
		node, err := recipes.NewNode(client, "/state")
		s.must(err)
		ctx, stop := context.WithCancel(s.Context())
		written := make(chan error, 2)
		s.must(a.Run(ctx, func(ctx context.Context, o *assign.Ownership) error {
			_, err := node.Update(ctx, o.Claim, func([]byte, *zk.Stat, bool) ([]byte, error) { return []byte(o.Partition()), nil })
			if written <- err; len(written) == 2 {
				stop()
			}
			return untilDone(ctx, o)
		}))
		s.must(<-written)
		s.must(<-written)
	})
}
