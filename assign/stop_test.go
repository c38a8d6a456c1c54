// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// stuck is work that never returns for one partition until release is closed.
func stuck(partition string, release <-chan struct{}) func(context.Context, *assign.Ownership) error {
	return func(ctx context.Context, o *assign.Ownership) error {
		if o.Partition() == partition {
			<-release
		}
		return untilDone(ctx, o)
	}
}

func TestMemberThatNeverReturnsKeepsOnlyItsPartition(t *testing.T) {
	bubble(t, func(s servers) {
		release := make(chan struct{})
		a := s.connect("a", assign.Options{Partitions: partitions(6)})
		a.run(stuck("p00005", release))
		time.Sleep(settled)
		b := s.start("b", assign.Options{})
		time.Sleep(5 * time.Minute)
		require.Equal(s, []string{"p00003", "p00004"}, of(s.now(), "b"), "and it waits for p00005")
		require.Equal(s, []string{"p00000", "p00001", "p00002", "p00005"}, of(s.now(), "a"))
		b.mustStop()
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 6}, s.counts())
		require.Equal(s, 1, s.calls()["p00005"], "the work that goes on is not begun again")
		b = s.start("b", assign.Options{})
		time.Sleep(settled)
		a.stop()
		time.Sleep(5 * time.Minute)
		require.Equal(s, []string{"p00005"}, of(s.now(), "a"))
		require.Len(s, of(s.now(), "b"), 5)
		close(release)
		require.NoError(s, <-a.result)
		time.Sleep(settled)
		require.Len(s, of(s.now(), "b"), 6)
		b.mustStop()
	})
}

func TestMemberLeavesTheQueueOfPartitionThatItIsNoLongerNamedFor(t *testing.T) {
	bubble(t, func(s servers) {
		release := make(chan struct{})
		a := s.connect("a", assign.Options{Partitions: partitions(6)})
		a.run(stuck("p00005", release))
		time.Sleep(settled)
		b := s.start("b", assign.Options{})
		queued := func(after time.Duration) int {
			time.Sleep(after)
			queue, err := s.Children(path + "/owned/p00005")
			s.must(err)
			return len(queue)
		}
		require.Equal(s, 2, queued(settled), "b waits for the work of a")
		s.must(s.put(path+"/assigned/b", `{"format": 1, "weight": 1, "partitions": ["p00003", "p00004"]}`))
		require.Equal(s, 1, queued(100*time.Millisecond))
		require.Equal(s, 2, queued(settled), "the leader names it again")
		close(release)
		time.Sleep(settled)
		require.Equal(s, []string{"p00003", "p00004", "p00005"}, of(s.now(), "b"))
		stopAll(a, b)
	})
}

func TestWorkThatDoesNotStopInTimeEndsRunAndKeepsItsPartition(t *testing.T) {
	bubble(t, func(s servers) {
		release := make(chan struct{})
		a := s.connect("a", assign.Options{Partitions: partitions(6), StopTimeout: 5 * time.Second})
		a.run(stuck("p00005", release))
		time.Sleep(settled)
		b := s.start("b", assign.Options{})
		began := time.Now()
		err := <-a.result
		require.WithinRange(s, time.Now(), began.Add(5*time.Second), began.Add(8*time.Second))
		require.ErrorIs(s, err, election.ErrOverrun)
		require.ErrorIs(s, err, assign.ErrMoved)
		require.ErrorContains(s, err, "run: stop /assign/owned/p00005/")
		a.run(untilDone)
		time.Sleep(time.Minute)
		require.Equal(s, []string{"p00000", "p00001", "p00002", "p00005"}, names(a.Owned()), "as long as the work goes on")
		require.Equal(s, 1, s.calls()["p00005"])
		s.expire(a) // now another member may own it, and this process may not
		b.mustStop()
		time.Sleep(time.Minute)
		require.Equal(s, 1, s.calls()["p00005"])
		close(release)
		time.Sleep(settled)
		require.Equal(s, map[string]int{"a": 6}, s.counts())
		require.Equal(s, 2, s.calls()["p00005"])
		a.mustStop()
	})
}

func TestWorkBeginsAgainOnlyAfterItHasReturned(t *testing.T) {
	for name, interrupt := range map[string]func(s servers, a *member){
		"the claim is lost": func(s servers, a *member) { s.expire(a) },
		"the partition is moved away and back": func(s servers, a *member) {
			b := s.start("b", assign.Options{Weight: 1000})
			time.Sleep(settled)
			b.mustStop()
			time.Sleep(settled)
		},
		"the set changes": func(s servers, a *member) {
			s.must(a.SetPartitions(s.Context(), nil))
			time.Sleep(settled)
			s.must(a.SetPartitions(s.Context(), partitions(3)))
			time.Sleep(settled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				release := make(chan struct{})
				a := s.connect("a", assign.Options{Partitions: partitions(3)})
				a.run(stuck("p00002", release))
				time.Sleep(settled)
				interrupt(s, a)
				time.Sleep(time.Minute)
				require.Equal(s, 1, s.calls()["p00002"])
				require.GreaterOrEqual(s, s.calls()["p00001"], 2, "other partitions do not wait")
				close(release)
				time.Sleep(settled)
				require.Equal(s, 2, s.calls()["p00002"])
				a.mustStop()
			})
		})
	}
}

func TestFailureOfWorkAffectsItsPartitionAlone(t *testing.T) {
	bubble(t, func(s servers) {
		failing := map[string]func() error{
			"p00000": func() error { return errors.New("disk full") },
			"p00001": func() error { panic("nil map") },
			"p00002": func() error { return nil },
		}
		work := func(ctx context.Context, o *assign.Ownership) error {
			if fail := failing[o.Partition()]; fail != nil {
				time.Sleep(time.Millisecond)
				return fail()
			}
			return untilDone(ctx, o)
		}
		a, b := s.connect("a", assign.Options{Partitions: partitions(8)}), s.connect("b", assign.Options{})
		a.run(work)
		b.run(work)
		time.Sleep(settled)
		owners := map[string]string{}
		for range 600 {
			time.Sleep(time.Second)
			for p, id := range s.now() {
				if owners[p] == "" {
					owners[p] = id
				}
				require.Equal(s, owners[p], id, "no partition travels")
			}
		}
		for _, p := range partitions(8) {
			if failing[p] != nil {
				require.InDelta(s, 17, s.calls()[p], 5, "calls back off up to a minute")
			} else {
				require.Equal(s, 1, s.calls()[p])
			}
		}
		logged := a.logged.String() + b.logged.String()
		require.Contains(s, logged, `partition=p00000 error="disk full"`)
		require.Contains(s, logged, `partition=p00001 error="work panicked: nil map`)
		require.NotContains(s, logged, "p00002")
		stopAll(a, b)
	})
}

func TestErrorThatRetryRejectsEndsRun(t *testing.T) {
	for name, retry := range map[string]func(string, error) bool{
		"rejects": func(partition string, err error) bool { return partition != "p00001" },
		"panics":  func(string, error) bool { panic("in Retry") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s servers) {
				failure := errors.New("disk full")
				a := s.connect("a", assign.Options{Partitions: partitions(3), Retry: retry})
				b := s.start("b", assign.Options{})
				a.run(func(ctx context.Context, o *assign.Ownership) error {
					if o.Partition() == "p00001" {
						return failure
					}
					return untilDone(ctx, o)
				})
				b.stop()
				err := <-a.result
				require.ErrorIs(s, err, failure)
				require.ErrorContains(s, err, `partition "p00001": disk full`)
				require.Empty(s, a.Owned())
				require.Zero(s, a.client.OutstandingNodes(), "everything is released")
				require.NoError(s, <-b.result)
			})
		})
	}
}

func TestUncertainOperationAtTheEndOfRunIsReported(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.connect("a", assign.Options{Partitions: partitions(1)})
		a.run(func(ctx context.Context, o *assign.Ownership) error {
			<-ctx.Done()
			return fmt.Errorf("update: %w", recipes.ErrUncertain)
		})
		time.Sleep(settled)
		a.stop()
		require.ErrorIs(s, <-a.result, recipes.ErrUncertain)
	})
}

func TestRunReturnsInTimeWithoutServers(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.start("a", assign.Options{Partitions: partitions(20)})
		time.Sleep(settled)
		a.link.Hold(zktest.Both)
		began := time.Now()
		a.stop()
		require.ErrorIs(s, <-a.result, recipes.ErrUncertain)
		require.LessOrEqual(s, time.Since(began), timeout+time.Second)
	})
}

func TestClosedClientEndsRun(t *testing.T) {
	bubble(t, func(s servers) {
		a := s.start("a", assign.Options{Partitions: partitions(2)})
		time.Sleep(settled)
		s.must(a.client.Close())
		require.ErrorIs(s, <-a.result, recipes.ErrClosed)
		require.Empty(s, s.now())
	})
}

func TestUnhealthyMemberLeaves(t *testing.T) {
	bubble(t, func(s servers) {
		sick := errors.New("queue of 9000 items")
		began := time.Now()
		a := s.connect("a", assign.Options{Partitions: partitions(4), Health: func(context.Context) error {
			if time.Since(began) > 30*time.Second {
				return sick
			}
			return nil
		}})
		a.run(untilDone)
		b := s.start("b", assign.Options{})
		err := <-a.result
		require.ErrorIs(s, err, election.ErrUnhealthy)
		require.EqualError(s, err, "run: health check failed: queue of 9000 items")
		require.WithinRange(s, time.Now(), began.Add(30*time.Second), began.Add(36*time.Second))
		time.Sleep(settled)
		require.Equal(s, map[string]int{"b": 4}, s.counts(), "without RejoinWait")
		err = a.Run(s.Context(), untilDone)
		require.ErrorIs(s, err, sick, "and it does not join")
		for _, check := range []func(context.Context) error{
			func(ctx context.Context) error { <-ctx.Done(); return nil },
			func(context.Context) error { panic("in Health") },
		} {
			c := s.connect("c", assign.Options{Health: check})
			require.ErrorIs(s, c.Run(s.Context(), untilDone), election.ErrUnhealthy)
		}
		b.mustStop()
	})
}

// startWithHealthThatHangs runs member a, whose second call of Health returns after release. checking has an element for each call.
func (s servers) startWithHealthThatHangs() (a *member, checking chan struct{}, release func()) {
	hanging, checking := make(chan struct{}), make(chan struct{}, 2)
	a = s.connect("a", assign.Options{Partitions: partitions(4), Health: func(context.Context) error {
		if checking <- struct{}{}; len(checking) == 2 {
			<-hanging
		}
		return nil
	}})
	a.run(untilDone)
	return a, checking, func() { close(hanging) }
}

func TestHealthThatDoesNotReturnDelaysTheEndOfRunByItsTimeout(t *testing.T) {
	bubble(t, func(s servers) {
		a, checking, release := s.startWithHealthThatHangs()
		defer release()
		for len(checking) < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		a.mustStop()
		require.WithinRange(s, time.Now(), began.Add(election.DefaultHealthTimeout), began.Add(election.DefaultHealthTimeout+time.Second))
	})
}

func TestMemberWhoseHealthDoesNotReturnLeavesAfterItsTimeout(t *testing.T) {
	bubble(t, func(s servers) {
		a, checking, release := s.startWithHealthThatHangs()
		defer release()
		b := s.start("b", assign.Options{})
		for len(checking) < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(election.DefaultHealthTimeout + settled)
		require.Equal(s, map[string]int{"b": 4}, s.counts())
		require.ErrorIs(s, <-a.result, election.ErrUnhealthy)
		b.mustStop()
	})
}
