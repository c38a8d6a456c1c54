// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// slotStorm measures how long slots are free that all are lost at the same time.
var slotStorm = &benchCase{
	name: "slot-storm", servers: []int{1},
	about: "1,024 slots are held in 100 sessions, which end at the same time, while 2,000 contenders in 100 other sessions wait: when all slots are held again.",
	round: func(r *round) error {
		limit, waiters, sessions := r.size(1024, 128), r.size(2000, 250), r.size(100, 20)
		path := r.path()
		former, err := r.slotUsers(path, limit, sessions)
		if err != nil {
			return err
		}
		heap, goroutines := live()
		err = together(limit, func(i int) error {
			_, err := former[i%sessions].slots.Acquire(r)
			return err
		})
		if err != nil {
			return err
		}
		after, more := live()
		r.add(ours, "heap of a slot kB", float64(after-heap)/float64(limit)/1000)
		r.add(ours, "goroutines of a slot", float64(more-goroutines)/float64(limit))
		next, err := r.slotUsers(path, limit, sessions)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(r)
		var waiting sync.WaitGroup
		r.cleanup(func() {
			cancel()
			waiting.Wait()
		})
		granted := make(chan int, waiters)
		for i := range waiters {
			waiting.Go(func() {
				if slot, err := next[i%sessions].slots.Acquire(ctx); err == nil { // otherwise the case is over, or fails below
					granted <- slot.Number()
				}
			})
		}
		admin, err := r.admin()
		if err != nil {
			return err
		}
		err = r.until("all contenders in the queue", func() (bool, error) {
			_, stat, err := admin.Exists(path)
			return err == nil && int(stat.NumChildren) == limit+waiters, err
		})
		if err != nil {
			return err
		}
		before, err := r.settled()
		if err != nil {
			return err
		}
		began := time.Now()
		if err := together(sessions, func(i int) error { return former[i].client.Close() }); err != nil {
			return err
		}
		held := map[int]bool{}
		for range limit {
			select {
			case number := <-granted:
				if held[number] {
					return fmt.Errorf("two contenders were granted slot %d", number)
				}
				held[number] = true
			case <-r.Done():
				return context.Cause(r)
			}
		}
		r.add(ours, "all held again s", time.Since(began).Seconds())
		end, err := r.settled()
		r.add(ours, "requests of a slot", float64(end.received-before.received)/float64(limit))
		return err
	},
}

// A slotUser is a client that takes slots.
type slotUser struct {
	client *recipes.Client
	slots  *lock.Slots
}

// slotUsers returns clients with a session each.
func (r *round) slotUsers(path string, limit, n int) (users []slotUser, err error) {
	users = make([]slotUser, n)
	return users, together(n, func(i int) (err error) {
		if users[i].client, err = connect(r, r.server(0), quiet, nil, nil); err != nil {
			return err
		}
		r.cleanup(func() { _ = users[i].client.Close() })
		users[i].slots, err = lock.NewSlots(users[i].client, path, limit, nil)
		return err
	})
}
