// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// records returns the data and the version of each member's record.
func (s servers) records() map[string]string {
	s.Helper()
	ids, err := s.Children(path + "/assigned")
	s.must(err)
	all := map[string]string{}
	for _, id := range ids {
		data, stat, err := s.Get(path + "/assigned/" + id)
		s.must(err)
		all[id] = fmt.Sprintf("%d %s", stat.Mzxid, data)
	}
	return all
}

// leaders returns the nodes of the candidates, the leader's first.
func (s servers) leaders() []string {
	s.Helper()
	nodes, err := s.Children(path + "/leader")
	s.must(err)
	return nodes
}

func TestLeaderChangeMovesNothing(t *testing.T) {
	bubble(t, func(s servers) {
		var all []*member
		for i := range 4 {
			all = append(all, s.start(fmt.Sprint(i), assign.Options{Partitions: partitions(30)}))
			time.Sleep(settled) // one after the other: what is assigned is not what would be from scratch
		}
		calls, records := s.calls(), s.records()
		for range 5 {
			before := s.leaders()
			for _, node := range before { // of all candidates: no order matters
				s.must(s.Delete(path + "/leader/" + node))
			}
			time.Sleep(20 * time.Second)
			require.NotEqual(s, before, s.leaders())
		}
		require.Equal(s, calls, s.calls())
		require.Equal(s, records, s.records(), "balanced records stay")
		stopAll(all...)
	})
}

func TestNothingMovesWithoutLeader(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a", assign.Options{Partitions: partitions(10)}), s.start("b", assign.Options{})
		time.Sleep(settled)
		calls := s.calls()
		blocked := s.Intercept(zktest.Rule{Op: "create", Below: path + "/leader", Fail: zktest.ErrThrottled})
		for _, node := range s.leaders() {
			s.must(s.Delete(path + "/leader/" + node))
		}
		c := s.start("c", assign.Options{})
		time.Sleep(time.Minute)
		require.Equal(s, calls, s.calls())
		blocked.Remove()
		time.Sleep(time.Minute)
		require.Equal(s, map[string]int{"a": 4, "b": 3, "c": 3}, s.counts())
		stopAll(a, b, c)
	})
}

func TestOutageMovesNothing(t *testing.T) {
	for name, after := range map[string]time.Duration{
		"within the deadline":       timeout / 5,
		"beyond the deadline":       timeout,
		"beyond the former session": 4 * timeout,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				var all []*member
				for i := range 5 {
					all = append(all, s.start(fmt.Sprint(i), assign.Options{Partitions: partitions(30)}))
					time.Sleep(settled)
				}
				before, records := s.now(), s.records()
				for _, m := range all {
					m.link.Refuse(true)
					m.link.Reset()
				}
				time.Sleep(after)
				if after > timeout/2 {
					require.Empty(s, s.now(), "work stops at the deadlines")
				}
				for _, m := range all { // they return one after the other, within RejoinWait
					m.link.Refuse(false)
					time.Sleep(time.Second)
				}
				time.Sleep(10 * timeout)
				require.Equal(s, before, s.now())
				require.Equal(s, records, s.records())
				stopAll(all...)
			})
		})
	}
}

func TestRestartMovesNothing(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a", assign.Options{Partitions: partitions(30)}), s.start("b", assign.Options{})
		time.Sleep(settled)
		c := s.start("c", assign.Options{})
		time.Sleep(settled)
		before, records, calls := s.now(), s.records(), s.calls()
		b.link.Refuse(true) // as a process that was killed
		b.link.Reset()
		time.Sleep(2 * timeout) // its session has ended
		again := s.start("b", assign.Options{})
		time.Sleep(10 * timeout)
		require.Equal(s, before, s.now())
		require.Equal(s, records, s.records())
		for p, n := range s.calls() {
			if before[p] != "b" {
				require.Equal(s, calls[p], n, "work of others goes on")
			}
		}
		b.stop()
		b.link.Refuse(false)
		<-b.result //nolint:errcheck // its session is lost
		stopAll(a, c, again)
	})
}

func TestPartitionsOfMemberThatCrashedMoveAfterRejoinWait(t *testing.T) {
	bubble(t, func(s servers) {
		const wait = time.Minute
		a, b := s.start("a", assign.Options{Partitions: partitions(10)}), s.start("b", assign.Options{RejoinWait: wait})
		time.Sleep(settled)
		began := time.Now()
		b.link.Refuse(true)
		b.link.Reset()
		for s.counts()["a"] < 10 {
			time.Sleep(10 * time.Millisecond)
		}
		require.WithinRange(s, time.Now(), began.Add(wait+timeout), began.Add(wait+timeout+timeout/4+2*time.Second), "T to T + a tick, RebalanceWait and RejoinWait")
		b.link.Refuse(false)
		time.Sleep(10 * timeout)
		require.Equal(s, map[string]int{"a": 5, "b": 5}, s.counts())
		a.mustStop()
		time.Sleep(settled)
		require.Equal(s, map[string]int{"b": 10}, s.counts(), "a member that stops is not waited for")
		b.mustStop()
	})
}

func TestPanickingFunctionLeavesTheRecords(t *testing.T) {
	for want, broken := range map[string]func(in assign.Input) (map[string]string, error){
		"assignment function: work panicked: nil map": func(assign.Input) (map[string]string, error) { panic("nil map") },
		"assignment function: no zones":               func(assign.Input) (map[string]string, error) { return nil, errors.New("no zones") },
		`partition \"p00000\" has no member`:          func(assign.Input) (map[string]string, error) { return nil, nil },
		`has \"nobody\", which is not a member`: func(in assign.Input) (map[string]string, error) {
			all := maps.Clone(in.Current)
			all["p00003"] = "nobody"
			return all, nil
		},
		`\"p9\" is not a partition`: func(in assign.Input) (map[string]string, error) {
			all := maps.Clone(in.Current)
			all["p9"] = "a"
			return all, nil
		},
	} {
		t.Run(want, func(t *testing.T) {
			bubble(t, func(s servers) {
				var fail atomic.Bool
				var calls atomic.Int32
				function := func(in assign.Input) (map[string]string, error) {
					if calls.Add(1); fail.Load() {
						return broken(in)
					}
					return assign.Balanced(in)
				}
				opts := assign.Options{Partitions: partitions(10), Assign: function}
				a, b := s.start("a", opts), s.start("b", opts)
				time.Sleep(settled)
				records, begun := s.records(), s.calls()
				fail.Store(true)
				calls.Store(0)
				c := s.start("c", opts)
				time.Sleep(10 * time.Minute)
				require.Equal(s, records, s.records())
				require.Equal(s, begun, s.calls(), "owners go on, and Run does not end")
				require.Contains(s, a.logged.String()+b.logged.String()+c.logged.String(), want)
				require.InDelta(s, 17, calls.Load(), 5, "calls back off up to a minute")
				fail.Store(false)
				time.Sleep(time.Minute + settled)
				require.Equal(s, map[string]int{"a": 4, "b": 3, "c": 3}, s.counts())
				stopAll(a, b, c)
			})
		})
	}
}

func TestDataThatIsNotOfThePackageStopsNoWork(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a", assign.Options{Partitions: partitions(10)}), s.start("b", assign.Options{})
		time.Sleep(settled)
		begun, before := s.calls(), s.now()
		set, _, err := s.Get(path + "/set")
		s.must(err)
		for node, data := range map[string]string{"set": "garbage", "assigned/a": `{"format":1,"partitions":["x/y"],"weight":1}`, "assigned/c": "x"} {
			s.must(s.put(path+"/"+node, data))
			time.Sleep(settled)
			require.Equal(s, begun, s.calls(), node)
		}
		logged := a.logged.String() + b.logged.String()
		require.Contains(s, logged, "the node's data is not a set of partitions")
		require.Contains(s, logged, `the node's data is not the partitions of a member: partition \"x/y\" has a slash`)
		require.NotContains(s, s.records(), "c", "the leader removes and repairs records")
		require.NotContains(s, s.records()["a"], "x/y")
		require.Equal(s, before, s.now())
		s.must(s.Delete(path + "/set"))
		time.Sleep(settled)
		require.Equal(s, before, s.now(), "without a set the records stay")
		s.must(s.put(path+"/set", string(set)))
		s.must(s.Delete(path + "/assigned/b"))
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 5, "b": 5}, s.counts(), "the leader restores a record that was deleted")
		s.must(s.put(path+"/members/d", "not a member")) // persistent
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 5, "b": 5}, s.counts())
		stopAll(a, b)
	})
}

func TestRecordsThatAnOperatorDeletedAllAreRestored(t *testing.T) {
	bubble(t, func(s servers) {
		a, b := s.start("a", assign.Options{Partitions: partitions(10)}), s.start("b", assign.Options{})
		time.Sleep(settled)
		s.deleteAll(path + "/assigned")
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 5, "b": 5}, s.counts())
		stopAll(a, b)
	})
}

func TestMemberThatStopsDuringAnAssignmentIsNotWaitedFor(t *testing.T) {
	bubble(t, func(s servers) {
		computing := make(chan struct{}, 100)
		opts := assign.Options{Partitions: partitions(12), Assign: func(in assign.Input) (map[string]string, error) {
			computing <- struct{}{}
			time.Sleep(3 * timeout / 24) // the member has left before the leader reads again
			return assign.Balanced(in)
		}}
		a := s.start("a", opts)
		time.Sleep(settled)
		b := s.start("b", opts)
		time.Sleep(2 * settled)
		for len(computing) > 0 {
			<-computing
		}
		c := s.start("c", opts)
		<-computing
		b.mustStop()
		time.Sleep(settled) // and no RejoinWait
		require.Equal(s, map[string]int{"a": 6, "c": 6}, s.counts())
		stopAll(a, c)
	})
}

func TestLeaderThatStopsIsNotWaitedForBySlowSuccessor(t *testing.T) {
	for name, c := range map[string]struct{ link, assign time.Duration }{
		"slow links":               {link: timeout / 120},
		"slow assignment function": {assign: timeout / 8},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				computing := make(chan struct{}, 100)
				opts := assign.Options{Partitions: partitions(12), Assign: func(in assign.Input) (map[string]string, error) {
					computing <- struct{}{}
					time.Sleep(c.assign)
					return assign.Balanced(in)
				}}
				a := s.start("a", opts)
				time.Sleep(settled)
				b := s.start("b", opts)
				time.Sleep(2 * settled)
				a.link.Delay(c.link)
				b.link.Delay(c.link)
				for len(computing) > 0 {
					<-computing
				}
				s.must(s.Delete(path + "/assigned/b")) // so that it computes
				<-computing
				a.mustStop() // the leader
				time.Sleep(settled)
				require.Equal(s, map[string]int{"b": 12}, s.counts())
				b.mustStop()
			})
		})
	}
}

func TestFunctionMayChangeItsInput(t *testing.T) {
	bubble(t, func(s servers) {
		reversing := func(in assign.Input) (map[string]string, error) {
			slices.Reverse(in.Partitions)
			all := map[string]string{}
			for i, p := range in.Partitions {
				all[p] = in.Members[i%len(in.Members)].ID
			}
			in.Members[0] = assign.Member{}
			clear(in.Current)
			return all, nil
		}
		a := s.start("a", assign.Options{Partitions: partitions(6), Assign: reversing, Metadata: []byte("m")})
		b := s.start("b", assign.Options{Assign: reversing})
		time.Sleep(2 * settled)
		require.Equal(s, map[string]int{"a": 3, "b": 3}, s.counts())
		records := s.records()
		time.Sleep(time.Minute)
		require.Equal(s, records, s.records(), "written once")
		stopAll(a, b)
	})
}
