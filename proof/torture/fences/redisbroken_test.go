// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

// brokenRegisters are registers with a plausible but wrong replacement of the guard.
type brokenRegisters struct {
	client *redis.Client
	prefix string
	fault  string
}

// luaNumbers compares tokens as numbers of Lua, which are inexact above 2^53.
const luaNumbers = "compares as Lua numbers"

// brokenScripts maps each mistake to the property that detects it.
var brokenScripts = map[string]string{
	swapped:      "an equal token is admitted",
	equalityOnly: "a newer token is admitted and shuts out the one before",
	checksFirst:  "of two writers racing the newer wins",
	luaNumbers:   "tokens are compared as numbers with all their digits",
}

// brokenChecks are the conditions on which a script with a mistake rejects. n is the newest token as text, t the given one.
var brokenChecks = map[string]string{
	swapped:      `not (#n < #t or #n == #t and n < t)`,
	equalityOnly: `n ~= t`,
	luaNumbers:   `tonumber(t) < tonumber(n)`,
}

func (c brokenRegisters) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	fence, key := c.prefix+"fence:"+resource, c.prefix+"value:"+resource
	stale := func(newest string) error {
		n, err := fencing.ParseToken(newest)
		return errors.Join(err, &fencing.StaleError{Token: token, Newest: n})
	}
	if c.fault == checksFirst {
		newest, err := c.client.Get(ctx, fence).Int64()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return err
		case int64(token) < newest:
			return stale(fencing.Token(newest).String())
		}
		return c.client.MSet(ctx, fence, int64(token), key, value).Err()
	}
	reply, err := c.client.Eval(ctx, `local n, t = redis.call("GET", KEYS[1]), ARGV[1]
		if n and (`+brokenChecks[c.fault]+`) then return n end
		redis.call("SET", KEYS[1], t)
		redis.call("SET", KEYS[2], ARGV[2])
		return ""`, []string{fence, key}, int64(token), value).Text()
	if err == nil && reply != "" {
		err = stale(reply)
	}
	return err
}

func (c brokenRegisters) Value(ctx context.Context, resource string) (string, error) {
	value, err := c.client.Get(ctx, c.prefix+"value:"+resource).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return value, err
}

func (c brokenRegisters) Reset(ctx context.Context, resource string) error {
	return c.client.Del(ctx, c.prefix+"fence:"+resource).Err()
}

type brokenScriptTask struct{ Addr, Fault string }

func TestBrokenScriptFailsTheSuite(t *testing.T) {
	for fault, property := range brokenScripts {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			child.RequireFailure(t, "TestSuiteOfABrokenScript", property, brokenScriptTask{stores.Redis(t, nil).Addr, fault})
		})
	}
}

// It fails. TestBrokenScriptFailsTheSuite runs it and checks which property fails.
func TestSuiteOfABrokenScript(t *testing.T) {
	var c brokenScriptTask
	child.Task(t, &c)
	client := dial(t, c.Addr)
	property := 0
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		property++
		r := brokenRegisters{client, fmt.Sprintf("%d:", property), c.Fault}
		return fencetest.Subject{Open: func(*testing.T) fencetest.Guarded { return r }}
	})
}
