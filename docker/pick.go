// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"
)

// backend is a way to run servers.
type backend interface {
	// describe names it for the people who read test logs.
	describe() string
	// launch starts the servers without waiting until they serve. remove, never
	// nil, undoes all of it, also after an error.
	launch(ctx context.Context, p *plan) (nodes []node, remove func() error, err error)
}

// picked is the backend of every ensemble of this process that names none. It is
// asked for once, under a bound of its own: the answer must not depend on how
// much patience the first caller had. Most of it is for an image to be pulled.
var picked = sync.OnceValues(func() (backend, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	b, err := pick(ctx)
	if err == nil {
		fmt.Fprintf(os.Stderr, "zookeeper for tests: %s\n", b.describe())
	}
	return b, err
})

// choose returns the backend that the plan names, or the process's own.
func choose(ctx context.Context, p *plan) (backend, error) {
	switch p.backend {
	case "docker":
		return findEngine(ctx)
	case "java":
		return findJava(ctx, p.logf)
	}
	return picked()
}

func pick(ctx context.Context) (backend, error) {
	if list := os.Getenv("ZK_SERVERS"); list != "" {
		return foreignServers(list)
	}
	switch name := os.Getenv("ZK_TEST_BACKEND"); name {
	case "":
	case "docker":
		return findEngine(ctx)
	case "java":
		return findJava(ctx, func(string, ...any) {})
	default:
		return nil, fmt.Errorf("ZK_TEST_BACKEND=%q: must be docker or java", name)
	}
	engine, noEngine := findEngine(ctx)
	if noEngine == nil {
		return engine, nil
	}
	java, noJava := findJava(ctx, func(string, ...any) {})
	if noJava == nil {
		return java, nil
	}
	return nil, fmt.Errorf("%w: ZK_SERVERS is not set; no engine: %w; no Java: %w", ErrNoBackend,
		noEngine, noJava)
}
