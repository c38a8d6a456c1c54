// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// bubble runs test in fake time, on one processor: with two, Go 1.26's race detector
// can crash when two timers of one bubble are received from at once.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, test)
}

// inMemory is a ground of three servers without sockets.
func inMemory(t *testing.T) (*ground, *zktest.Ensemble) {
	t.Helper()
	const timeout = 4 * time.Second
	ensemble := zktest.StartWith(t, &zktest.Options{Servers: 3, Tick: tickFor(timeout), InMemory: true})
	return &ground{called: "3 servers of a bubble", servers: ensemble.Servers(), timeout: timeout, dial: ensemble.Dial}, ensemble
}

// okLine is the verdict on a demo that has shown everything.
var okLine = regexp.MustCompile(`\nok: told \d+ ms before another held; tokens rose \d+ -> \d+; the late write was refused\n$`)

func TestDemoShowsWhatItPromises(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, ensemble := inMemory(t)
		var out bytes.Buffer
		ok, err := play(t.Context(), g, &out)
		t.Logf("%s", &out)
		require.NoError(t, err)
		require.True(t, ok)
		require.Regexp(t, okLine, out.String())
		requireNothingLeft(t, ensemble, out.String())
	})
}

func TestDemoThatIsInterruptedWhileCutOffLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, ensemble := inMemory(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		out := &trigger{word: "is cut off", pull: func() { cancel(errors.New("somebody pressed a key")) }}
		ok, err := play(ctx, g, out)
		t.Logf("%s", out.buffer.String())
		require.NoError(t, err)
		require.False(t, ok)
		require.Regexp(t, `\nfailed: somebody pressed a key\n$`, out.buffer.String())
		requireNothingLeft(t, ensemble, out.buffer.String())
	})
}

// A trigger is a writer that does something once it has seen a word.
type trigger struct {
	buffer bytes.Buffer
	word   string
	pull   func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.word) {
		w.pull()
	}
	return w.buffer.Write(p)
}

// requireNothingLeft fails if the demo has left a session, or a node below the path
// that it says it works on.
func requireNothingLeft(t *testing.T, ensemble *zktest.Ensemble, said string) {
	t.Helper()
	require.Empty(t, ensemble.Sessions())
	path := regexp.MustCompile(`/lockkeeper-demo/[a-z0-9]+`).FindString(said)
	children, err := ensemble.Children(path)
	require.NoError(t, err)
	require.Empty(t, children)
}

func TestDemoNeedsNothingButThisProcess(t *testing.T) {
	t.Setenv("ZK_SERVERS", "")
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusOK, run(t.Context(), []string{"demo"}, nil, &stdout, &stderr), "%s%s", &stdout, &stderr)
	require.Empty(t, stderr.String())
	require.Regexp(t, `^three candidates for /lockkeeper-demo/[a-z0-9]+ on 3 servers in this process \(zktest\)\n`, stdout.String())
	require.Regexp(t, okLine, stdout.String())
	var running strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&running, 1))
	require.NotContains(t, running.String(), "zktest.(*Ensemble)", "its servers have ended")
}

func TestTicksOfServersInThisProcessSuitTheTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 1001 * time.Millisecond, 4 * time.Second, time.Hour, 1000 * time.Hour} {
		t.Run(fmt.Sprint(timeout), func(t *testing.T) {
			ensemble, err := zktest.Listen(&zktest.Options{Tick: tickFor(timeout), InMemory: true})
			require.NoError(t, err)
			require.NoError(t, ensemble.Close())
			require.GreaterOrEqual(t, timeout, 4*tickFor(timeout))
		})
	}
}

func TestDemoThatFindsNoServersFailsWithTheReason(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("somebody pressed a key"))
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusFailed, run(ctx, []string{"demo", "--servers", "127.0.0.1:1"}, nil, &stdout, &stderr))
	require.Regexp(t, `\nfailed: candidate a: connect: .*somebody pressed a key.*\n$`, stdout.String())
	require.Empty(t, stderr.String())
}

func TestDemoThatCannotBeShownFails(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, statusFailed, run(t.Context(), []string{"demo", "--servers", "127.0.0.1:1"}, nil, broken{}, &stderr))
	require.Equal(t, "lockkeeper: demo: no paper\n", stderr.String())
}
