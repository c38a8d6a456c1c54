// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// recoveries are creates that were not answered, and the grants of a test.
type recoveries struct {
	mu      sync.Mutex // guards what follows
	found   int
	missing int
	granted map[fencing.Token]int
}

func (r *recoveries) trace(t *testing.T) *recipes.Trace {
	t.Helper()
	return &recipes.Trace{
		Recovered: func(e recipes.QueueEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			switch {
			case e.Err != nil:
				t.Errorf("recover: %v", e.Err)
			case e.Found:
				r.found++
			default:
				r.missing++
			}
		},
		Granted: func(e recipes.QueueEvent) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.granted[e.Token]++
		},
	}
}

func TestManyLostRepliesOfJoinsCostOneReadOfEachCandidateInEachSession(t *testing.T) {
	const sessions = 5
	const joins = sessions * unprivileged
	for name, plain := range map[string]bool{"names with a nonce": false, "names without": true} {
		t.Run(name, func(t *testing.T) {
			crowded(t, zktest.Options{}, func(s servers) {
				holder := s.loaded(recipes.Options{})
				r := &recoveries{granted: make(map[fencing.Token]int)}
				var links []*zktest.Link
				var queues []*queue.Queue
				for range sessions {
					link := s.Link()
					link.Delay(time.Millisecond)
					links = append(links, link)
					queues = append(queues, s.queue(s.loaded(recipes.Options{Dial: link.Dial, Trace: r.trace(t)}), "/b"))
					s.take(queues[len(queues)-1])() // it knows the path, and no other contender
				}
				synctest.Wait() // all of that is traced
				r.mu.Lock()
				clear(r.granted)
				r.mu.Unlock()
				claim := s.holds(holder, "/b")
				present := 1
				early := s.crowd() // whose nodes the joins check, so that their names have no nonce
				if plain {
					for i, q := range queues {
						early.join(q, 1)
						s.queued("/b", 2+i, loadTimeout)
					}
					present += sessions
				}
				time.Sleep(loadTimeout)
				late := s.crowd()
				for i, link := range links {
					link.Hold(zktest.ToClient)
					late.join(queues[i], unprivileged)
				}
				s.queued("/b", present+joins, loadTimeout/12)
				listings := s.Intercept(zktest.Rule{Op: "getChildren"})
				reads := s.Intercept(zktest.Rule{Op: "getData", Below: "/b", When: func(r zktest.Request) bool { return !r.Watch }})
				for _, link := range links {
					link.Reset()
					link.Release()
				}
				time.Sleep(loadTimeout)
				s.queued("/b", present+joins, 0)
				listed := sum(listings)
				read := sum(reads)
				s.Logf("%d joins in doubt in %d sessions: %d listings, %d reads", joins, sessions, listed, read)
				candidates := joins // of each session, for a name does not say whose it is
				if !plain {
					candidates = unprivileged
				}
				// The first caller lists for itself, and the others share a listing; the
				// rest are listings of waiters whose predecessor has another name.
				require.LessOrEqual(s, listed, 6*sessions)
				require.LessOrEqual(s, read, 2*sessions*candidates)

				require.NoError(s, s.queue(holder, "/b").Release(s.Context(), claim))
				early.members.Wait()
				late.members.Wait()
				s.queued("/b", 0, 0)
				synctest.Wait()
				r.mu.Lock()
				defer r.mu.Unlock()
				require.Equal(s, joins, r.found)
				require.Zero(s, r.missing)
				require.Len(s, r.granted, present+joins-1, "each waiter has one node")
			})
		})
	}
}
