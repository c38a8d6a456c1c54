// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// The proof's simulation cuts scenarios of assignments at each frame; make simulate runs all requests here.
var every = flag.Int("assign.every", 17, "fail one request of this many, from a random one on")

// scribble overwrites the records of members at random times, as stale leaders and operators might: any number of members can be named for a
// partition.
func (s servers) scribble(r *rand.Rand, ids []string, until time.Time) {
	for time.Now().Before(until) {
		time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
		record := map[string]any{"format": 1, "weight": 1, "partitions": []string{}}
		var named []string
		for _, p := range partitions(3) {
			if r.IntN(2) == 0 {
				named = append(named, p)
			}
		}
		if named != nil {
			record["partitions"] = named
		}
		data, err := json.Marshal(record)
		s.must(err)
		switch r.IntN(10) {
		case 0:
			data = []byte("garbage")
		case 1:
			_ = s.Delete(path + "/assigned/" + ids[r.IntN(len(ids))]) // it may not exist
			continue
		}
		_ = s.put(path+"/assigned/"+ids[r.IntN(len(ids))], string(data)) // the node above it may not exist yet
	}
}

// sweep runs three members under random records, and makes the n-th request of one of them fail. It reports whether there was that request. The work of
// servers.record finds two owners, and tokens that do not rise.
func sweep(t *testing.T, n int, rule zktest.Rule) (reached bool) {
	t.Helper()
	bubble(t, func(s servers) {
		r := rand.New(rand.NewPCG(uint64(n), 0))
		opts := assign.Options{
			Partitions: partitions(3), RebalanceWait: 200 * time.Millisecond, RejoinWait: time.Second, RetryBackoff: 100 * time.Millisecond,
		}
		ids := []string{"a", "b", "c"}
		var all []*member
		for _, id := range ids {
			all = append(all, s.connect(id, opts))
		}
		rule.Skip, rule.Times = n-1, 1
		rule.When = func(r zktest.Request) bool { return r.Op != "ping" }
		failed := all[0].link.Intercept(rule)
		for _, m := range all {
			m.run(untilDone)
		}
		s.scribble(r, ids, time.Now().Add(1500*time.Millisecond))
		time.Sleep(4 * timeout)
		require.Len(s, s.now(), 3, "request %d: all partitions are owned again, %v %s %s %s", n, s.records(), all[0].logged, all[1].logged, all[2].logged)
		for _, m := range all {
			m.stop()
		}
		for _, m := range all {
			if err := <-m.result; err != nil {
				require.ErrorIs(s, err, recipes.ErrUncertain, "the request was a release")
			}
		}
		time.Sleep(2 * timeout)
		for i, m := range all {
			require.Zero(s, m.client.OutstandingNodes(), "request %d, member %d", n, i)
		}
		for _, p := range partitions(3) {
			left, err := s.Children(path + "/owned/" + p)
			s.must(err)
			require.Empty(s, left, "request %d", n)
		}
		reached = failed.Fired() > 0
	})
	return reached
}

func TestAtMostOneOwnerWhateverTheRecordsSay(t *testing.T) {
	need.NoRaceDetector(t)
	for name, rule := range map[string]zktest.Rule{
		"connection ends before the request": {Lose: zktest.ToServer},
		"connection ends after the request":  {Lose: zktest.ToClient},
		"never carried out":                  {Hold: zktest.ToServer},
		"never answered":                     {Hold: zktest.ToClient},
	} {
		t.Run(name, func(t *testing.T) {
			n := 1 + rand.IntN(*every)
			for sweep(t, n, rule) {
				n += *every
			}
			require.Greater(t, n, 60, "the scenario has that many requests at least")
			t.Log(fmt.Sprint(n, " requests"))
		})
	}
}
