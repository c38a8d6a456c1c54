// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestNewLeaderStoresItsPartitionsIfNoSetIsStored(t *testing.T) {
	bubble(t, func(s servers) {
		opts := assign.Options{Partitions: partitions(10)}
		a := s.start("a", opts)
		time.Sleep(settled)
		b := s.start("b", opts)
		time.Sleep(settled)
		s.must(s.Delete(path + "/set"))
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 5, "b": 5}, s.counts())
		a.mustStop() // the leader
		time.Sleep(2 * settled)
		require.Equal(s, map[string]int{"b": 10}, s.counts())
		b.mustStop()
	})
}

func TestNewLeaderReplacesNoSetThatIsStoredAtTheSameTime(t *testing.T) {
	bubble(t, func(s servers) {
		opts := assign.Options{Partitions: partitions(10)}
		a := s.start("a", opts)
		time.Sleep(settled)
		b := s.start("b", opts)
		time.Sleep(settled)
		s.must(s.Delete(path + "/set"))
		create := b.link.Intercept(zktest.Rule{Op: "create", Path: path + "/set", Times: 1, Before: func(zktest.Request) {
			s.must(s.Create(path+"/set", []byte(`{"format":1,"partitions":["y","z"]}`)))
		}})
		a.mustStop() // the leader
		time.Sleep(2 * settled)
		require.Equal(s, 1, create.Fired())
		require.Equal(s, []string{"y", "z"}, slices.Sorted(maps.Keys(s.now())))
		require.Equal(s, map[string]int{"b": 2}, s.counts())
		b.mustStop()
	})
}

func TestLeaderWithoutPartitionsWarnsThatNoSetIsStored(t *testing.T) {
	for name, data := range map[string]string{"the node is missing": "", "the node is empty": "empty"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				a := s.start("a", assign.Options{Partitions: partitions(10)})
				time.Sleep(settled)
				b := s.start("b", assign.Options{})
				time.Sleep(settled)
				s.must(s.Delete(path + "/set"))
				if data != "" {
					s.must(s.Create(path+"/set", nil))
				}
				a.mustStop() // the leader
				time.Sleep(2 * settled)
				require.Contains(s, b.logged.String(), `level=WARN msg="no set of partitions is stored" path=/assign/set member=b`)
				require.Len(s, of(s.now(), "b"), 5)
				s.must(b.SetPartitions(s.Context(), partitions(4)))
				time.Sleep(settled)
				require.Equal(s, map[string]int{"b": 4}, s.counts())
				b.mustStop()
			})
		})
	}
}

func TestSetThatMayHaveBeenStoredIsUncertain(t *testing.T) {
	for name, rules := range map[string][]zktest.Rule{
		"created, and not read again": {{Op: "getData", Path: path + "/set", Skip: 1, Hold: zktest.ToServer}},
		"written without an answer, and not read again": {
			{Op: "setData", Path: path + "/set", Times: 1, Lose: zktest.ToClient},
			{Op: "getData", Path: path + "/set", Skip: 1, Hold: zktest.ToServer},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				a := s.connect("a", assign.Options{})
				if len(rules) > 1 {
					s.must(a.SetPartitions(s.Context(), partitions(2)))
				}
				for _, rule := range rules {
					s.Intercept(rule)
				}
				ctx, cancel := context.WithTimeout(s.Context(), timeout/2)
				defer cancel()
				err := a.SetPartitions(ctx, partitions(3))
				require.ErrorIs(s, err, recipes.ErrUncertain)
				require.ErrorIs(s, err, context.DeadlineExceeded)
				data, _, err := s.Get(path + "/set")
				s.must(err)
				require.Contains(s, string(data), "p00002", "it was stored")
			})
		})
	}
}

func TestSetThatWasNotStoredIsNotUncertain(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", assign.Options{})
		s.Intercept(zktest.Rule{Op: "getData", Path: path + "/set", Hold: zktest.ToServer})
		ctx, cancel := context.WithTimeout(s.Context(), timeout/2)
		defer cancel()
		err := a.SetPartitions(ctx, partitions(3))
		require.ErrorIs(s, err, context.DeadlineExceeded)
		require.NotErrorIs(s, err, recipes.ErrUncertain)
		_, _, err = s.Get(path + "/set")
		require.ErrorIs(s, err, zktest.ErrNoNode)
	})
}
