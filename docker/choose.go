// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/docker/internal/image"
)

// picked returns the backend of every ensemble of this process that names none. It is
// determined once, with its own bound, so that it does not depend on the context of the first
// caller. Most of the bound is for pulling an image.
var picked = sync.OnceValues(func() (choice, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	picked, err := pick(ctx, os.Getenv, sources{engine: findEngine, java: findJava})
	if err == nil {
		fmt.Fprint(os.Stderr, picked.report("zookeeper for tests"))
	}
	return picked, err
})

// choose returns the backend that the plan names, or the process's own.
func choose(ctx context.Context, p *plan) (c choice, err error) {
	switch p.backend {
	case "docker":
		c, err = findEngine(ctx)
	case "java":
		c, err = findJava(ctx, p.logf)
	default:
		return within(ctx, "choose what runs ZooKeeper", picked)
	}
	if c.left != nil {
		p.logf("zookeeper: leftovers of an earlier run remain: %v", c.left)
	}
	return c, err
}

// within calls f, which ends by itself, and waits for it until ctx ends. The call then continues, for the next caller.
func within[T any](ctx context.Context, what string, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() { // bounded by f
		value, err := f()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
}

// sources are the backends that start servers.
type sources struct {
	engine func(context.Context) (choice, error)
	java   func(context.Context, func(string, ...any)) (choice, error)
}

// pick returns the backend that the environment names, otherwise the first that is available.
// If the environment names an image, no other backend is tried: with servers of another
// version, tests could pass for the wrong reason.
func pick(ctx context.Context, env func(string) string, from sources) (choice, error) {
	if list := env("ZK_SERVERS"); list != "" {
		b, err := externalServers(list)
		return choice{backend: b}, err
	}
	silent := func(string, ...any) {}
	named := env(image.Variable)
	switch name := env("ZK_TEST_BACKEND"); {
	case name == "java" && named != "":
		return choice{}, fmt.Errorf("ZK_TEST_BACKEND=java and %s=%q: Java processes have no image: unset one of them", image.Variable, named)
	case name == "java":
		return from.java(ctx, silent)
	case name == "docker":
		return from.engine(ctx)
	case name != "":
		return choice{}, fmt.Errorf("ZK_TEST_BACKEND=%q: must be docker or java", name)
	}
	engine, noEngine := from.engine(ctx)
	switch {
	case noEngine == nil:
		return engine, nil
	case named != "":
		return choice{}, fmt.Errorf("%s=%q asks for containers, so Java processes are not tried: %w", image.Variable, named, noEngine)
	}
	java, noJava := from.java(ctx, silent)
	if noJava == nil {
		java.over = noEngine
		return java, nil
	}
	return choice{}, fmt.Errorf("%w: ZK_SERVERS is not set; no engine: %w; no Java: %w", ErrNoBackend,
		noEngine, noJava)
}
