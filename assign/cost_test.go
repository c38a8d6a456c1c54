// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// costs counts requests, except pings, by the kinds of their nodes.
type costs struct{ *zktest.Interceptor }

func (s servers) count() costs {
	return costs{s.Intercept(zktest.Rule{When: func(r zktest.Request) bool { return r.Op != "ping" }})}
}

func (c costs) String() string {
	kinds := map[string]int{}
	for _, count := range c.Counts() {
		kind := strings.Split(strings.TrimPrefix(count.Path, path+"/"), "/")[0]
		kinds[kind+" "+count.Op] += count.Requests
	}
	var list []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		list = append(list, fmt.Sprintf("%s: %d", kind, kinds[kind]))
	}
	return strings.Join(list, ", ")
}

// allOwned waits until so many partitions are owned by so many members.
func (s servers) allOwned(partitions, members int) {
	s.Helper()
	for counts := s.counts(); len(s.now()) < partitions || len(counts) < members; counts = s.counts() {
		time.Sleep(10 * time.Millisecond)
	}
}

func TestThousandPartitionsOfFiftyMembersCostFewRequests(t *testing.T) {
	need.NoRaceDetector(t)
	bubble(t, func(s servers) {
		var all []*member
		for i := range 50 {
			all = append(all, s.connect(fmt.Sprintf("m%02d", i), assign.Options{Partitions: partitions(1000)}))
		}
		counted := s.count()
		began := time.Now()
		for _, m := range all {
			m.run(untilDone)
		}
		s.allOwned(1000, 50)
		t.Logf("first start: %d requests in %v: %v", counted.Fired(), time.Since(began), counted)
		counted.Remove()
		require.LessOrEqual(s, counted.Fired(), 8000)

		time.Sleep(settled)
		calls := s.calls()
		idle := s.count()
		time.Sleep(6 * timeout)
		idle.Remove()
		heartbeats := 6 * 6 * 50 // each member, every T/6
		require.InDelta(s, heartbeats, idle.Fired(), 50, "nothing but heartbeats: %v", idle)
		require.Equal(s, calls, s.calls())

		more := s.connect("more", assign.Options{})
		counted = s.count()
		before := s.now()
		more.run(untilDone)
		time.Sleep(timeout) // until the last request has passed
		heartbeats = 6 * 51
		t.Logf("51st member: %d requests, of which %d are heartbeats: %v", counted.Fired(), heartbeats, counted)
		require.LessOrEqual(s, counted.Fired()-heartbeats, 200)
		require.Len(s, moves(before, s.now()), 19)
		for _, calls := range s.calls() {
			require.LessOrEqual(s, calls, 2, "no partition moves twice")
		}
		stopAll(append(all, more)...)
	})
}
