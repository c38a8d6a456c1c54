// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// callers are goroutines that use one client in every way, until stop is called.
// None of their calls may fail, except that claims may be lost: check and unlock then
// return one of the errors that are allowed.
type callers struct {
	servers
	client  *recipes.Client
	allowed []error
	cancel  context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
	mu      sync.Mutex // guards done
	done    map[string]int
}

// busy starts n callers of each kind. The n paths below /own have no other contender;
// another client holds /w.
func (s servers) busy(client *recipes.Client, n int, pause time.Duration, allowed ...error) *callers {
	ctx, cancel := context.WithCancel(s.Context())
	c := &callers{servers: s, client: client, allowed: allowed, cancel: cancel, ctx: ctx, done: make(map[string]int)}
	for i := range n {
		waited := s.queue(client, "/w")
		own := s.queue(client, fmt.Sprintf("/own/%d", i))
		c.loop(pause, "wait", func() error {
			_, err := waited.Claim(ctx)
			return err
		})
		c.loop(pause, "give up", func() error {
			brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond*time.Duration(i+1))
			defer cancel()
			_, err := waited.Claim(brief)
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			return err
		})
		c.loop(pause, "lock", func() error {
			claim, err := own.Claim(ctx)
			if err != nil {
				return err
			}
			c.count("check", claim.Check(ctx))
			c.count("unlock", own.Release(ctx, claim))
			return nil
		})
		c.loop(pause, "try", func() error {
			_, err := waited.Try(ctx)
			var busy *recipes.BusyError
			if errors.As(err, &busy) {
				return nil
			}
			return err
		})
		c.loop(pause, "list", func() error {
			_, err := waited.Contenders(ctx)
			return err
		})
		c.loop(pause, "observe", func() error {
			front, err := waited.Front(ctx)
			if err == nil && front.Empty {
				return errors.New("no client holds /w")
			}
			return err
		})
	}
	return c
}

// loop calls f over and over until stop is called.
func (c *callers) loop(pause time.Duration, name string, f func() error) {
	c.running.Go(func() {
		for c.ctx.Err() == nil {
			c.count(name, f())
			time.Sleep(pause)
		}
	})
}

// count counts a call that has succeeded. Others fail the test.
func (c *callers) count(name string, err error) {
	if err != nil {
		if name == "check" || name == "unlock" {
			for _, allowed := range c.allowed {
				if errors.Is(err, allowed) {
					return
				}
			}
		}
		if c.ctx.Err() == nil {
			c.Errorf("%s: %v", name, err)
			c.cancel()
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[name]++
}

// stop ends them, and requires that all kinds of calls but waiting have been made.
func (c *callers) stop() {
	c.cancel()
	c.running.Wait()
	for _, name := range []string{"give up", "lock", "check", "unlock", "try", "list", "observe"} {
		require.Positive(c.servers, c.done[name], name)
	}
	require.Zero(c.servers, c.done["wait"], "/w is held by another client")
}

// outages has callers use a client of the session timeout T through outages of T/5.
func outages(t *testing.T, timeout time.Duration, n int) {
	t.Helper()
	crowded(t, zktest.Options{Servers: 3, Tick: timeout / 4}, func(s servers) {
		s.holds(s.loaded(recipes.Options{SessionTimeout: timeout}), "/w")
		link := s.Link()
		link.Delay(time.Millisecond)
		// A slow sender: the ZooKeeper client's queue is never empty.
		m := &meter{dial: link.Dial, perFrame: 2 * time.Millisecond}
		client := s.loaded(recipes.Options{SessionTimeout: timeout, Dial: m.Dial})
		claim := s.holds(client, "/a")
		c := s.busy(client, 8, 5*time.Millisecond)
		id := client.SessionID()
		for i := range n {
			time.Sleep(timeout/4 + time.Duration(i)*timeout/61)
			arriving := s.gather(client, 40, on("/w")) // which takes about 600 ms
			time.Sleep(time.Duration(i+1) * 600 * time.Millisecond / time.Duration(n))
			link.Refuse(true)
			link.Reset()
			time.Sleep(timeout / 5)
			link.Refuse(false)
			time.Sleep(timeout / 4)
			arriving.disperse()
		}
		time.Sleep(timeout)
		c.stop()
		require.NoError(s, claim.Err(), "it rides out a fifth of the timeout")
		require.Equal(s, id, client.SessionID())
		require.Equal(s, 1, client.OutstandingNodes())
	})
}

func TestNoCallFailsOverOutagesWhileRequestsAreQueued(t *testing.T) {
	need.NoRaceDetector(t)
	outages(t, 4*time.Second, 6)
}

// The ZooKeeper client's own pause of a second would cost the session.
func TestRequestsThatAreQueuedAsTheConnectionEndsDelayNoReconnectionAtAShortTimeout(t *testing.T) {
	need.NoRaceDetector(t)
	outages(t, 2*time.Second, 6)
}

func TestNoCallOfManyFailsAtTheMomentOfAnExpiry(t *testing.T) {
	need.NoRaceDetector(t)
	crowded(t, zktest.Options{Servers: 3}, func(s servers) {
		s.holds(s.loaded(recipes.Options{}), "/w")
		link := s.Link()
		link.Delay(time.Millisecond)
		m := &meter{dial: link.Dial, perFrame: 2 * time.Millisecond}
		client := s.loaded(recipes.Options{Dial: m.Dial})
		c := s.busy(client, 8, 5*time.Millisecond, recipes.ErrLost, recipes.ErrUncertain)
		for i := range 5 {
			time.Sleep(loadTimeout/6 + time.Duration(i)*7*time.Millisecond)
			require.NoError(s, s.Expire(t.Context(), client.SessionID()))
		}
		time.Sleep(loadTimeout)
		c.stop()
		require.Zero(s, client.OutstandingNodes())
	})
}
