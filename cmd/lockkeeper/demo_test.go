// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// inMemory returns a target of three servers without sockets.
func inMemory(t *testing.T) (*target, *zktest.Ensemble) {
	t.Helper()
	const timeout = 4 * time.Second
	ensemble := zktest.Start(t, &zktest.Options{Servers: 3, Tick: tickFor(timeout), InMemory: true})
	return &target{name: "3 in-memory servers", servers: ensemble.Addrs(), timeout: timeout, dial: ensemble.Dial}, ensemble
}

// okLine matches the verdict of a demo in which every claim held.
var okLine = regexp.MustCompile(`\nok: notified \d+ ms before the next term; tokens rose \d+ -> \d+; the stale write was rejected\n$`)

func TestDemoOnZktestEndsWithOK(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		target, ensemble := inMemory(t)
		var out bytes.Buffer
		ok, err := play(t.Context(), target, &out)
		t.Logf("%s", &out)
		require.NoError(t, err)
		require.True(t, ok)
		require.Regexp(t, okLine, out.String())
		requireNothingLeft(t, ensemble, out.String())
	})
}

func TestDemoInterruptedDuringPartitionLeavesNoNodes(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		target, ensemble := inMemory(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		out := &trigger{text: "is partitioned", action: func() { cancel(errors.New("interrupt")) }}
		ok, err := play(ctx, target, out)
		t.Logf("%s", out.buffer.String())
		require.NoError(t, err)
		require.False(t, ok)
		require.Regexp(t, `\nfailed: interrupt\n$`, out.buffer.String())
		requireNothingLeft(t, ensemble, out.buffer.String())
	})
}

// A trigger is a writer that calls action when text is written.
type trigger struct {
	buffer bytes.Buffer
	text   string
	action func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.action()
	}
	return w.buffer.Write(p)
}

// requireNothingLeft fails if the demo has left a session, or a node below the path that
// its output names.
func requireNothingLeft(t *testing.T, ensemble *zktest.Ensemble, output string) {
	t.Helper()
	require.Empty(t, ensemble.Sessions())
	path := regexp.MustCompile(`/lockkeeper-demo/[a-z0-9]+`).FindString(output)
	children, err := ensemble.Children(path)
	require.NoError(t, err)
	require.Empty(t, children)
}

func TestDemoNeedsNoServers(t *testing.T) {
	t.Setenv(serversVariable, "")
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusOK, run(t.Context(), []string{"demo"}, nil, &stdout, &stderr), "%s%s", &stdout, &stderr)
	require.Empty(t, stderr.String())
	require.Regexp(t, `^three candidates for /lockkeeper-demo/[a-z0-9]+ on 3 servers in this process \(zktest\)\n`, stdout.String())
	require.Regexp(t, okLine, stdout.String())
	var running strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&running, 1))
	require.NotContains(t, running.String(), "zktest.(*Ensemble)", "its servers have stopped")
}

func TestDemoTakesServersFromFlagOrElseEnvironment(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt"))
	for _, test := range []struct{ variable, flag, want string }{
		{"127.0.0.1:1/app", "", "127.0.0.1:1/app"},
		{"127.0.0.1:1", "--servers=127.0.0.1:2", "127.0.0.1:2"},
		{" ", "", "3 servers in this process (zktest)"},
	} {
		t.Setenv(serversVariable, test.variable)
		var stdout, stderr bytes.Buffer
		run(ctx, strings.Fields("demo "+test.flag), nil, &stdout, &stderr)
		require.Contains(t, stdout.String(), " on "+test.want+"\n")
	}
}

func TestTickForTimeoutIsValidAndAtMostAQuarter(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 1001 * time.Millisecond, 4 * time.Second, time.Hour, 1000 * time.Hour} {
		t.Run(fmt.Sprint(timeout), func(t *testing.T) {
			ensemble, err := zktest.Run(t.Context(), &zktest.Options{Tick: tickFor(timeout), InMemory: true})
			require.NoError(t, err)
			require.NoError(t, ensemble.Close())
			require.GreaterOrEqual(t, timeout, 4*tickFor(timeout))
		})
	}
}

func TestDemoWithoutServersFailsWithReason(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt"))
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusFailed, run(ctx, []string{"demo", "--servers", "127.0.0.1:1"}, nil, &stdout, &stderr))
	require.Regexp(t, `\nfailed: candidate a: connect: .*interrupt.*\n$`, stdout.String())
	require.Empty(t, stderr.String())
}

func TestDemoFailsIfItsOutputCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, statusFailed, run(t.Context(), []string{"demo", "--servers", "127.0.0.1:1"}, nil, broken{}, &stderr))
	require.Equal(t, "lockkeeper: demo: write failed\n", stderr.String())
}
