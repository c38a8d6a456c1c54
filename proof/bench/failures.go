// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/recipes/guard"
)

// failureTimeout is the session timeout of the cases with failures, whose times are fractions of it.
const failureTimeout = 4 * time.Second

func inT(d time.Duration) float64 { return d.Seconds() / failureTimeout.Seconds() }

// A holderTask is what a process that will be killed does.
type holderTask struct {
	Library, Server, Path string
}

// holders acquire a lock in a process that will be killed.
var holders = map[string]struct {
	hold func(ctx context.Context, task holderTask) error
	next library // which waits
}{
	ours: {func(ctx context.Context, task holderTask) error { return hold(ctx, task, nil) }, lockkeeper},
	guarded: {func(ctx context.Context, task holderTask) error {
		g, err := guard.Start(ctx)
		if err != nil {
			return err
		}
		return hold(ctx, task, g)
	}, lockkeeper},
	zkLock: {func(ctx context.Context, task holderTask) error {
		conn, err := dialBare(ctx, task.Server, failureTimeout, new(traffic))
		if err != nil {
			return err
		}
		return zk.NewLock(conn, task.Path, zk.WorldACL(zk.PermAll)).Lock()
	}, goZKLock},
}

// hold acquires the lock of a task. g may be nil.
func hold(ctx context.Context, task holderTask, g recipes.Guard) error {
	client, err := recipes.Connect(ctx, []string{task.Server}, &recipes.Options{SessionTimeout: failureTimeout, Guard: g, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = lockBy(ctx, client, task.Path)
	}
	return err
}

// holder keeps a lock until its process is killed.
var holder = child.New("holder", func(task holderTask) error {
	if err := holders[task.Library].hold(context.Background(), task); err != nil {
		return err
	}
	fmt.Println("holds")
	_, err := os.Stdin.Read(make([]byte, 1)) // until the end of the parent
	return err
})

// killed measures how long a lock is not held after its holder was killed.
var killed = &benchCase{
	name: "kill", servers: []int{1, 3},
	about: "SIGKILL ends the process that holds a lock, T = 4 s: how long until the next one holds it, in T.",
	round: func(r *round) error {
		times := map[string][]float64{}
		var mu sync.Mutex
		names := slices.Sorted(maps.Keys(holders))
		err := together(len(names)*r.size(10, 4), func(i int) error { // sessions expire one beside the other
			took, err := r.kill(names[i%len(names)], i)
			mu.Lock()
			defer mu.Unlock()
			times[names[i%len(names)]] = append(times[names[i%len(names)]], took)
			return err
		})
		for library, all := range times {
			r.add(library, "p50 T", median(all))
			r.add(library, "worst T", quantile(all, 1))
		}
		return err
	},
}

// kill kills a holder and returns how long the lock was not held.
func (r *round) kill(name string, i int) (float64, error) {
	o, err := holders[name].next.open(r, setup{sessions: 1, locks: 1, timeout: failureTimeout, server: r.server(i)})
	if err != nil {
		return 0, err
	}
	defer o.close()
	process, err := child.Launch(holder.Command(r, holderTask{name, r.server(i + 1), o.path}))
	if err != nil {
		return 0, err
	}
	defer process.Kill()
	if _, err := process.Await(r, "holds"); err != nil {
		return 0, fmt.Errorf("%w: %s", err, process.Output())
	}
	granted := make(chan error, 1)
	go func() {
		_, err := o.lock(r, 0)
		granted <- err
	}()
	<-time.After(time.Second + time.Duration(i)*50*time.Millisecond) // not all at the same phase of the holder's heartbeats
	began := time.Now()
	process.Kill()
	err = <-granted
	return inT(time.Since(began)), err
}

// partitioned measures what a holder knows when its network carries nothing.
var partitioned = &benchCase{
	name: "partition", servers: []int{1},
	about: "The network of a holder carries nothing, T = 4 s: how long before the next holder's grant it is notified, in T.",
	round: func(r *round) error {
		var margins, notified []float64
		var mu sync.Mutex
		err := together(r.size(10, 4), func(i int) error {
			at, margin, err := r.partition(i)
			mu.Lock()
			defer mu.Unlock()
			notified, margins = append(notified, at), append(margins, margin)
			return err
		})
		r.add(ours, "notified after T", median(notified))
		r.add(ours, "least time before the next grant T", quantile(margins, 0))
		return err
	},
}

// partition returns when a holder was notified, and how long before the next grant that was, in T.
func (r *round) partition(i int) (notified, margin float64, err error) {
	proxy, err := docker.NewProxy(r.server(0))
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, proxy.Close()) }()
	path := r.path()
	client, err := connect(r, proxy.Addr(), failureTimeout, nil, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		proxy.Heal()
		_ = client.Close()
	}()
	next, err := connect(r, r.server(0), failureTimeout, nil, nil)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = next.Close() }()
	hold, err := lockBy(r, client, path)
	if err != nil {
		return 0, 0, err
	}
	granted := make(chan error, 1)
	go func() {
		_, err := lockBy(r, next, path)
		granted <- err
	}()
	<-time.After(2*time.Second + time.Duration(i)*50*time.Millisecond)
	began := time.Now()
	proxy.Drop(docker.Both)
	<-hold.Done()
	at := time.Now()
	err = <-granted
	return inT(at.Sub(began)), inT(time.Since(at)), err
}

func lockBy(ctx context.Context, client *recipes.Client, path string) (*lock.Hold, error) {
	mu, err := lock.New(client, path, nil)
	if err != nil {
		return nil, err
	}
	return mu.Lock(ctx)
}

// serverLost measures when a client is served again after its only address has refused connections for a moment.
var serverLost = &benchCase{
	name: "server-lost", servers: []int{1},
	about: "A server, or the load balancer in front of several, refuses connections for 50 ms: how long until a client's next write is done.",
	round: func(r *round) error {
		proxy, err := docker.NewProxy(r.server(0))
		if err != nil {
			return err
		}
		r.cleanup(func() { _ = proxy.Close() })
		back := map[string][]float64{}
		for _, l := range []library{lockkeeper, bareClient} {
			o, err := l.open(r, setup{sessions: 1, locks: 1, timeout: idleTimeout, server: proxy.Addr()})
			if err != nil {
				return err
			}
			r.cleanup(o.close)
			for range r.size(10, 3) {
				if err := once(r, o, 0); err != nil {
					return err
				}
				began := time.Now()
				proxy.Refuse()
				time.AfterFunc(50*time.Millisecond, proxy.Heal)
				for once(r, o, 0) != nil { // the bare client reports the loss to its caller
					if time.Since(began) > time.Minute {
						return fmt.Errorf("%s: not served again for a minute", l.name)
					}
				}
				back[l.name] = append(back[l.name], time.Since(began).Seconds())
			}
			r.add(l.name, "back s", median(back[l.name]))
		}
		r.compare("back s", []string{ours}, bare)
		return nil
	},
}
