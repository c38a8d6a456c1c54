// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// checksOnly reports whether a request is a heartbeat.
func checksOnly(r zktest.Request) bool {
	return r.Op == "multi" && !slices.ContainsFunc(r.Ops, func(op zktest.Request) bool { return op.Op != "check" })
}

func TestContendersAreReadAtTheSameTime(t *testing.T) {
	const contenders = 200
	crowded(t, zktest.Options{}, func(s servers) {
		s.holds(s.loaded(recipes.Options{}), "/b")
		c := s.gather(s.loaded(recipes.Options{}), contenders-1, on("/b"))
		defer c.disperse()
		s.queued("/b", contenders, loadTimeout)
		link := s.Link()
		queue := s.queue(s.loaded(recipes.Options{Dial: link.Dial}), "/b")
		link.Delay(5 * time.Millisecond)
		began := time.Now()
		all, err := queue.Contenders(s.Context())
		require.NoError(s, err)
		require.Len(s, all, contenders)
		require.True(s, slices.IsSortedFunc(all, func(a, b recipes.Contender) int { return int(a.Token - b.Token) }))
		require.LessOrEqual(s, time.Since(began), (1+contenders/unprivileged+1)*10*time.Millisecond)
	})
}

func TestContendersThatNeedAProofAfterASilenceShareIt(t *testing.T) {
	const contenders = 100
	crowded(t, zktest.Options{}, func(s servers) {
		holder := s.loaded(recipes.Options{})
		held := s.holdsMany(holder, contenders)
		link := s.Link()
		link.Delay(time.Millisecond)
		client := s.loaded(recipes.Options{Dial: link.Dial})
		c := s.gather(client, contenders, func(i int) string { return fmt.Sprintf("/held/%d", i) })
		for i := range contenders {
			s.queued(fmt.Sprintf("/held/%d", i), 2, loadTimeout)
		}
		time.Sleep(loadTimeout)
		link.Refuse(true)
		link.Reset()
		time.Sleep(loadTimeout * 5 / 8)
		for _, claim := range held {
			require.NoError(s, s.Delete(claim.Path()))
		}
		beats := s.Intercept(zktest.Rule{When: checksOnly})
		link.Refuse(false)
		began := time.Now()
		c.members.Wait()
		synctest.Wait()
		s.Logf("%d heartbeats in %v", beats.Fired(), time.Since(began))
		// No grant is possible before T/4 of answered packets.
		require.LessOrEqual(s, beats.Fired(), contenders/2)
		require.Less(s, time.Since(began), loadTimeout/2)
		require.Zero(s, client.OutstandingNodes())
	})
}

func TestManyObserversOfAChangeCostAHandfulOfListingsAndNoClaim(t *testing.T) {
	need.NoRaceDetector(t)
	const observers = 1000
	crowded(t, zktest.Options{}, func(s servers) {
		front := s.holds(s.loaded(recipes.Options{}), "/b")
		next := make(chan *recipes.Claim, 1)
		second := s.queue(s.loaded(recipes.Options{}), "/b")
		go func() {
			claim, err := second.Claim(s.Context())
			if err != nil {
				s.Errorf("claim: %v", err)
			}
			next <- claim
		}()
		s.queued("/b", 2, loadTimeout)
		c := s.gather(s.loaded(recipes.Options{}), burst/2, on("/b"))
		defer c.disperse()
		s.queued("/b", 2+burst/2, loadTimeout)
		m, p := metered(s.Ensemble), &pulse{}
		client := s.loaded(recipes.Options{Dial: m.Dial, Trace: &recipes.Trace{Heartbeat: p.beat}})
		claim := s.holds(client, "/a")
		queue := s.queue(client, "/b")
		listings := s.Intercept(zktest.Rule{Op: "getChildren"})
		var before, after sync.WaitGroup
		for range observers {
			before.Add(1)
			after.Go(func() {
				seen, err := queue.Front(s.Context())
				if err != nil || seen.Contender.Name != path.Base(front.Path()) {
					s.Errorf("front: %v, %v", seen.Contender.Name, err)
				}
				before.Done()
				<-seen.Changed
				if _, err := queue.First(s.Context()); err != nil {
					s.Errorf("first: %v", err)
				}
			})
		}
		before.Wait()
		time.Sleep(loadTimeout)
		require.NoError(s, s.Delete(front.Path()))
		require.NotNil(s, <-next)
		after.Wait()
		time.Sleep(loadTimeout)
		received, _, _, ahead, _ := m.read()
		s.Logf("%d listings, %d bytes received, a heartbeat behind %d requests and answered after %v", listings.Fired(), received, ahead, p.slowest())
		require.LessOrEqual(s, listings.Fired(), 20)
		require.LessOrEqual(s, ahead, ordinary)
		require.Less(s, p.slowest(), loadTimeout/8)
		require.NoError(s, claim.Err())
	})
}
