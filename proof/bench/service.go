// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/service"
	"github.com/lockkeeper/lockkeeper/service/client"
)

// serviceCalls measures the lock service, with its client.
var serviceCalls = &benchCase{
	name: "service", servers: []int{1, 3},
	about: "1, 50 and 500 callers of one replica of the lock service lock and unlock a lock each, over HTTP, without a pause.",
	round: func(r *round) error {
		url, err := r.replica()
		if err != nil {
			return err
		}
		for _, callers := range []int{1, 50, 500} {
			clients, err := r.callers(url, callers)
			if err != nil {
				return err
			}
			o := locked(r, setup{sessions: 1, locks: callers}, &opened{lock: func(ctx context.Context, worker int) (unlock, error) {
				hold, err := clients[worker].Lock(ctx, "team", fmt.Sprintf("key-%d-%d", callers, worker))
				if err != nil {
					return nil, err
				}
				return hold.Unlock, nil
			}})
			n, err := sized(o, r.during(2*time.Second))
			if err != nil {
				return err
			}
			result, err := o.cycle(4 * n)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%d %s", callers, plural(callers, "caller"))
			r.add(name, "rate", result.rate())
			r.add(name, "p50 ms", millis(median(result.each)))
			r.add(name, "p99 ms", millis(quantile(result.each, 0.99)))
		}
		return nil
	},
}

// serviceWaiters measures callers that wait for one key.
var serviceWaiters = &benchCase{
	name: "service-waiters", servers: []int{1},
	about: "1,000 callers of one replica wait for one key: what the replica sends to ZooKeeper meanwhile, and how long a hand-off takes.",
	round: func(r *round) error {
		url, err := r.replica()
		if err != nil {
			return err
		}
		const n = 1000
		clients, err := r.callers(url, n+1)
		if err != nil {
			return err
		}
		o := &opened{path: r.root + "/team/orders", close: func() {}, lock: func(ctx context.Context, worker int) (unlock, error) {
			hold, err := clients[worker].Lock(ctx, "team", "orders")
			if err != nil {
				return nil, err
			}
			return hold.Unlock, nil
		}}
		q, err := r.queued(o, n+1, n)
		if err != nil {
			return err
		}
		defer q.waiting.Wait()
		defer q.end()
		if err := r.idling("service", n); err != nil {
			return err
		}
		var times []time.Duration
		for range r.size(500, 50) {
			took, err := q.next(r)
			if err != nil {
				return err
			}
			times = append(times, took)
		}
		r.add("service", "hand-off p50 ms", millis(median(times)))
		return nil
	},
}

// callers returns n clients of the service.
func (r *round) callers(url string, n int) ([]*client.Client, error) {
	clients := make([]*client.Client, n)
	return clients, each(n, func(i int) (err error) {
		clients[i], err = client.New(url, &client.Options{Bearer: func() (string, error) { return "team", nil }})
		if err == nil {
			r.cleanup(func() { _ = clients[i].Close() })
		}
		return err
	})
}

// replica starts a replica of the lock service until the end of the round, and returns its URL.
func (r *round) replica() (string, error) {
	folder, err := os.MkdirTemp("", "bench-service")
	if err != nil {
		return "", err
	}
	r.cleanup(func() { _ = os.RemoveAll(folder) })
	secret := sha256.Sum256([]byte("team"))
	principals, keys := filepath.Join(folder, "principals.json"), filepath.Join(folder, "keys")
	for file, content := range map[string]string{
		principals: fmt.Sprintf(`{"principals": [{"name": "team", "tokens": [%q], "namespaces": ["team"], "roles": ["client"],
			"limits": {"requestsPerSecond": 1e6, "burst": 1000000, "waiters": 10000}}]}`, hex.EncodeToString(secret[:])),
		keys: strings.Repeat("c0", 32),
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	r.root = r.path()
	ctx, stop := context.WithCancel(r)
	started, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- service.Run(ctx, service.Config{
			Listen: "127.0.0.1:0", Servers: r.addrs, Root: r.root, Principals: principals, TokenKeys: keys,
			Started: func(url string) { started <- url }, Logger: slog.New(slog.DiscardHandler),
		})
	}()
	select {
	case url := <-started:
		r.cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				r.progress("the replica has ended: %v", err)
			}
		})
		return url, nil
	case err := <-ended:
		stop()
		return "", err
	}
}
