// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/internal/contender"
)

// Curator and Kazoo run in programs of package zktest/foreign, one process for all workers.
var (
	curator = library{name: "Curator", open: func(r *round, s setup) (*opened, error) {
		classes, err := os.MkdirTemp("", "bench-java")
		if err != nil {
			return nil, err
		}
		remove := func() { _ = os.RemoveAll(classes) }
		path, err := contender.CompileJava(r, filepath.Join(r.bench.root, foreignFolder, "Contend.java"), classes)
		if err != nil {
			remove()
			return nil, err
		}
		return openForeign(r, s, remove, func(args ...string) (*exec.Cmd, error) {
			return exec.CommandContext(r, "java", append([]string{"-cp", path, "Contend", "mutex"}, args...)...), nil
		})
	}}
	kazoo = library{name: "Kazoo", open: func(r *round, s setup) (*opened, error) {
		return openForeign(r, s, func() {}, func(args ...string) (*exec.Cmd, error) {
			return contender.Python(r, filepath.Join(r.bench.root, foreignFolder, "kazoo_contend.py"), append([]string{"lock"}, args...)...)
		})
	}}
)

const foreignFolder = "zktest/foreign"

// openForeign opens the workers of a program.
func openForeign(r *round, s setup, remove func(), command func(args ...string) (*exec.Cmd, error)) (*opened, error) {
	o := &opened{path: r.path()}
	cmd, err := command(strings.Join(r.addrs, ","), o.path)
	if err != nil {
		remove()
		return nil, err
	}
	process, err := child.Launch(cmd)
	if err != nil {
		remove()
		return nil, err
	}
	o.close = func() {
		process.Kill()
		remove()
	}
	kind := "sessions"
	if s.sessions == 1 {
		kind = "locks"
	}
	if _, err := tell(r, process, fmt.Sprintf("crowd %s %d", kind, s.workers()), "crowded"); err != nil {
		o.close()
		return nil, err
	}
	o.cycle = func(n int) (cycles, error) {
		took, err := tell(r, process, fmt.Sprint("cycle ", n), "cycled ")
		if err != nil {
			return cycles{}, err
		}
		nanoseconds, err := strconv.ParseInt(took, 10, 64)
		return cycles{n: n * s.workers(), took: time.Duration(nanoseconds)}, err
	}
	return o, nil
}

// tell sends a command to a contender and returns the rest of the event that begins with a word.
func tell(ctx context.Context, p *child.Process, command, event string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if err := p.Send(command); err != nil {
		return "", err
	}
	line, err := p.Await(ctx, contender.Mark+event)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, p.Output())
	}
	return strings.TrimPrefix(line, contender.Mark+event), nil
}
