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
	// describe returns its name for test logs.
	describe() string
	// launch starts the servers and does not wait until they serve. remove, which is
	// never nil, removes them, also after an error.
	launch(ctx context.Context, p *plan) (nodes []node, remove func() error, err error)
}

// A choice is a backend, and the reasons for which earlier ones were skipped, nil if
// none was.
type choice struct {
	backend
	over error
}

// picked is the backend of all ensembles of this process that name none. It is chosen
// once, with its own timeout, so that the choice does not depend on the first caller's
// context. Most of that time is for the pull of an image.
var picked = sync.OnceValues(func() (choice, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	picked, err := pick(ctx, os.Getenv, sources{engine: findEngine, java: findJava})
	if err == nil {
		fmt.Fprint(os.Stderr, picked.report("zookeeper for tests"))
	}
	return picked, err
})

// report describes a choice for users, in a line or two.
func (c choice) report(what string) string {
	text := fmt.Sprintf("%s: %s\n", what, c.describe())
	if c.over != nil {
		text += fmt.Sprintf("%s: passed over: %v\n", what, c.over)
	}
	return text
}

// choose returns the backend that the plan names, or that of the process.
func choose(ctx context.Context, p *plan) (choice, error) {
	switch p.backend {
	case "docker":
		return findEngine(ctx)
	case "java":
		return findJava(ctx, p.logf)
	}
	return picked()
}

// sources are the backends that start servers.
type sources struct {
	engine func(context.Context) (choice, error)
	java   func(context.Context, func(string, ...any)) (choice, error)
}

// pick returns the backend that the environment names, or else the first available one.
// If the environment names an image, no other backend is used: servers of another
// version could let tests pass for the wrong reason.
func pick(ctx context.Context, env func(string) string, from sources) (choice, error) {
	if list := env("ZK_SERVERS"); list != "" {
		b, err := foreignServers(list)
		return choice{backend: b}, err
	}
	silent := func(string, ...any) {}
	image := env(imageVariable)
	switch name := env("ZK_TEST_BACKEND"); {
	case name == "java" && image != "":
		return choice{}, fmt.Errorf("ZK_TEST_BACKEND=java and %s=%q: Java processes have no image: unset one of them", imageVariable, image)
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
	case image != "":
		return choice{}, fmt.Errorf("%s=%q asks for containers, so Java processes are not tried: %w", imageVariable, image, noEngine)
	}
	java, noJava := from.java(ctx, silent)
	if noJava == nil {
		java.over = noEngine
		return java, nil
	}
	return choice{}, fmt.Errorf("%w: ZK_SERVERS is not set; no engine: %w; no Java: %w", ErrNoBackend,
		noEngine, noJava)
}
