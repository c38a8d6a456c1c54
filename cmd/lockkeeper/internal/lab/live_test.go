// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// patience bounds each wait. No test measures it.
const patience = time.Minute

// A patientPlayer bounds each of its actions and waits by patience, not all of them together.
type patientPlayer struct {
	*player
	t *testing.T
}

func (p patientPlayer) patiently(f func()) {
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	p.ctx = ctx
	f()
}

func (p patientPlayer) do(do, who string) { p.patiently(func() { p.player.do(do, who) }) }

func (p patientPlayer) join(name string) { p.patiently(func() { p.player.join(name) }) }

func (p patientPlayer) await(key, wanted string, is func(any) bool) {
	p.patiently(func() { p.player.await(key, wanted, is) })
}

func (p patientPlayer) awaitLock(name, wanted string) {
	p.patiently(func() { p.player.awaitLock(name, wanted) })
}

// startLab runs a laboratory with processes, and returns its page when all contenders queue.
func startLab(t *testing.T) (l *Lab, url string, p patientPlayer) {
	t.Helper()
	l = New()
	ensemble := zktest.Start(t, &zktest.Options{Servers: 3, Tick: tick, OnCommit: l.Committed})
	started, ended := make(chan string, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- l.Run(ctx, Config{
			Ensemble: ensemble, Timeout: timeout, Listen: "127.0.0.1:0", Started: func(url string) { started <- url },
		})
	}()
	select {
	case url = <-started:
	case err := <-ended:
		stop()
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
		for _, m := range l.members {
			require.False(t, m.running.Load(), "%s has ended with the laboratory", m.name)
		}
		if t.Failed() {
			for _, e := range l.events() {
				if e.Kind == kindWrite {
					continue
				}
				t.Logf("%6d %s %s", e.At, e.Who, e.Text)
			}
		}
	})
	p = patientPlayer{&player{lab: l, role: names}, t}
	for _, name := range names {
		p.await(name+".lock", name+" to queue", func(v any) bool { return v == "holds" || v == "waits" })
	}
	require.NoError(t, p.err)
	return l, url, p
}

// run asks the page to run a preset with the processes, and waits until it has ended.
func run(t *testing.T, p patientPlayer, url, preset string, seed int) {
	t.Helper()
	res, err := http.Post(fmt.Sprintf("%sapi/presets/%s?seed=%d", url, preset, seed), "", strings.NewReader(""))
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, http.StatusAccepted, res.StatusCode)
	p.await("playing", "the preset to begin", func(v any) bool { return v == preset })
	p.await("playing", "the preset to end", func(v any) bool { return v == "" })
	require.NoError(t, p.err)
	require.Zero(t, kinds(p.lab.events(), kindError))
}

func TestPausedProcessWritesStaleAndOnlyFencedRegisterRejects(t *testing.T) {
	t.Parallel()
	l, url, p := startLab(t)
	const first, last = 7, 16
	for seed := first; !l.hasEvent(fenced, "rejects the stale write"); seed++ {
		require.LessOrEqual(t, seed, last, "each pause came too late")
		tooLate := l.hasEvent("preset", "the pause came too late")
		require.Equal(t, seed > first, tooLate, "it happens on a busy machine only, and is reported")
		run(t, p, url, "paused-leader", seed)
	}
	require.True(t, l.hasEvent("preset", "went out without another check of its hold"))
	require.True(t, l.hasEvent(bare, "accepts the stale write"))
}

// They follow each other, so that each begins with what the one before has left.
func TestPresetsRunWithProcessesToo(t *testing.T) {
	t.Parallel()
	_, url, p := startLab(t)
	for _, preset := range presets[1:] {
		run(t, p, url, preset.Name, 1)
	}
}

func TestKilledProcessIsReplacedAndStartsAgain(t *testing.T) {
	t.Parallel()
	_, _, p := startLab(t)
	p.do("kill", "a")
	p.awaitLock("b", "holds")
	p.do("start", "a")
	p.await("a.server", "a to have a session", func(v any) bool { return v != 0 })
	p.join("a")
	p.do("partition", "b")
	p.awaitLock("b", "lost")
	p.awaitLock("c", "holds")
	p.do("heal", "b")
	p.awaitLock("b", "waits")
	require.NoError(t, p.err)
}

func TestRegisterThatIsAwayRefusesConnectionsUntilItIsBack(t *testing.T) {
	t.Parallel()
	l, _, p := startLab(t)
	p.do("take-away", fenced)
	require.NoError(t, p.err)
	require.Eventually(t, func() bool {
		for _, e := range l.events() {
			if e.Who == "a" && e.Kind == kindError && strings.HasPrefix(e.Text, `cannot write "a-`) && strings.Contains(e.Text, `to the fenced register: Put "http://127.0.0.1:`) {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond)
	p.do("bring-back", fenced)
	value, _ := l.journal.value(fenced + ".value")
	p.await(fenced+".value", "another write", func(v any) bool { return v != value })
	require.NoError(t, p.err)
}

func TestLaboratoryListensForThisMachineOnly(t *testing.T) {
	for _, listen := range []string{":8090", "0.0.0.0:8090", "192.0.2.1:8090"} {
		require.ErrorContains(t, New().Run(t.Context(), Config{Listen: listen}), "may be reachable from other machines")
	}
}
