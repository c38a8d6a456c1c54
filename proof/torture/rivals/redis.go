// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// connect returns a client of a server that observes contexts' deadlines, which is an option there, and does not retry by itself: a retried
// SET NX whose first answer was lost would find its own key.
func connect(spec *worker.Spec, addr string) *redis.Client {
	redis.SetLogger(quiet{}) // failures are in the history
	return redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: time.Duration(spec.Timeout) / 4,
	})
}

// quiet discards the log of go-redis.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// redsyncMutex is redsync on one Redis, or on several that do not know of each other, of which a majority must grant the lock. "Until returns the time of validity of acquired lock", and ExtendContext extends
// it (https://pkg.go.dev/github.com/go-redsync/redsync/v4#Mutex). The holder does so every third of T, and ends the hold at Until.
type redsyncMutex struct{}

func (redsyncMutex) Supports(how string) bool { return how != "campaign" }
func (redsyncMutex) Reason(err error) string  { return why(err) }

func (redsyncMutex) Connect(ctx context.Context, spec *worker.Spec) (worker.Client, error) {
	c := newRedsync(spec)
	errs := make([]error, len(c.clients))
	var pinging sync.WaitGroup
	for i, client := range c.clients {
		pinging.Go(func() { errs[i] = client.Ping(ctx).Err() })
	}
	pinging.Wait()
	failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(failed) > (len(c.clients)-1)/2 {
		c.Close()
		return nil, fmt.Errorf("redis: %w", errors.Join(failed...))
	}
	return c, nil
}

func newRedsync(spec *worker.Spec) *redsyncClient {
	c := &redsyncClient{ttl: time.Duration(spec.Timeout)}
	var pools []pool.Pool
	for _, addr := range spec.Servers {
		client := connect(spec, addr)
		c.clients = append(c.clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	c.sync = redsync.New(pools...)
	return c
}

type redsyncClient struct {
	tenant
	clients []*redis.Client // of each server
	sync    *redsync.Redsync
	ttl     time.Duration
}

func (c *redsyncClient) Close() {
	c.leave()
	for _, client := range c.clients {
		_ = client.Close() // no request follows
	}
}

func (c *redsyncClient) Acquire(ctx context.Context, how, path string) (worker.Hold, error) {
	m := c.sync.NewMutex(path, redsync.WithExpiry(c.ttl))
	take := m.LockContext
	if how == "try" {
		take = m.TryLockContext
	}
	// "you may retry to acquire the lock by calling this method again": one call ends after 32 attempts, with waits between them,
	// whatever their errors.
	for err := take(ctx); err != nil; err = take(ctx) {
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case how == "try" && errors.As(err, new(*redsync.ErrTaken)):
			return nil, worker.ErrHeld
		case how == "try":
			return nil, err
		}
	}
	renew := func(ctx context.Context) (time.Time, error) {
		extended, err := m.ExtendContext(ctx)
		if err == nil || errors.As(err, new(*redsync.ErrTaken)) {
			if !extended {
				return time.Time{}, errGone
			}
		}
		return m.Until(), err
	}
	return c.has(keep(m.Until(), c.ttl, renew, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, c.ttl/4)
		defer cancel()
		_, err := m.UnlockContext(ctx)
		return err
	})), nil
}

// setNX is SET with NX, PX and a random value, and scripts that check the value before they extend or delete the key: "the
// correct implementation with a single instance" of Redis's documentation
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/). The holder counts the time from before its request.
type setNX struct{}

func (setNX) Supports(how string) bool { return how != "campaign" }
func (setNX) Reason(err error) string  { return why(err) }

func (setNX) Connect(ctx context.Context, spec *worker.Spec) (worker.Client, error) {
	client := connect(spec, spec.Servers[0])
	if err := client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("redis: %w", err), client.Close())
	}
	return &setNXClient{client: client, ttl: time.Duration(spec.Timeout)}, nil
}

type setNXClient struct {
	tenant
	client *redis.Client
	ttl    time.Duration
}

var (
	extendScript = redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`)
	deleteScript = redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)
)

func (c *setNXClient) Close() {
	c.leave()
	_ = c.client.Close() // no request follows
}

func (c *setNXClient) Acquire(ctx context.Context, how, path string) (worker.Hold, error) {
	lasts := c.ttl - drift(c.ttl)
	for {
		// Each attempt has its own value: the delete that follows an attempt may arrive late, and must not delete a later key.
		value := rand.Text()
		release := func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, c.ttl/4)
			defer cancel()
			return deleteScript.Run(ctx, c.client, []string{path}, value).Err()
		}
		until, ours, err := c.set(ctx, path, value)
		if ours && time.Now().Before(until) {
			return c.has(keep(until, c.ttl, func(ctx context.Context) (time.Time, error) {
				until := time.Now().Add(lasts)
				kept, err := extendScript.Run(ctx, c.client, []string{path}, value, c.ttl.Milliseconds()).Bool()
				if err == nil && !kept {
					err = errGone
				}
				return until, err
			}, release)), nil
		}
		if ours || err != nil {
			_ = release(context.WithoutCancel(ctx)) // if it fails, the lock expires
		}
		if err := retry(ctx, how, err); err != nil {
			return nil, err
		}
	}
}

// set tries to acquire the lock once.
func (c *setNXClient) set(ctx context.Context, path, value string) (until time.Time, ours bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.ttl/4)
	defer cancel()
	until = time.Now().Add(c.ttl - drift(c.ttl))
	err = c.client.SetArgs(ctx, path, value, redis.SetArgs{Mode: "NX", TTL: c.ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return until, false, nil
	}
	return until, err == nil, err
}
