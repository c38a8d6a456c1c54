// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/simulation/check"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

var (
	seeds = flag.Int("sim.seeds", 200, "how many seeded plans to run")
	seed  = flag.Uint64("sim.seed", 0, "run the plan of this seed only")
	plan  = flag.String("sim.plan", "", "run this plan only, given as text")
)

func TestMain(m *testing.M) {
	flag.Parse()
	zk.DefaultLogger = log.New(io.Discard, "", 0)
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}

var current atomic.Value

// inBubble runs one run, and says what is wrong with it.
func inBubble(t *testing.T, run func() ([]history.Event, error)) (events []history.Event, faults []string) {
	t.Helper()
	var err error
	watchdog := time.AfterFunc(10*time.Second, func() { fmt.Fprintln(os.Stderr, "STUCK", current.Load()); debug.SetTraceback("all"); panic("stuck") })
	defer watchdog.Stop()
	func() {
		defer func() {
			if r := recover(); r != nil {
				faults = append(faults, fmt.Sprintf("the bubble: %v", r))
			}
		}()
		synctest.Test(t, func(t *testing.T) { events, err = run() })
	}()
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, f := range check.History(events) {
		faults = append(faults, f.String())
	}
	return events, faults
}

// keep writes the history of a run that went wrong to a file.
func keep(t *testing.T, name string, events []history.Event) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "simulation-")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name+".jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := history.Write(f, events); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPlans(t *testing.T) {
	one := func(t *testing.T, name string, p Plan) {
		events, faults := inBubble(t, p.Run)
		if len(faults) > 0 {
			t.Errorf("%s\nplan: %v\nhistory: %s\nagain: go test ./internal/simulation -run TestPlans -sim.plan '%v'",
				strings.Join(faults, "\n"), p, keep(t, name, events), p)
		}
	}
	switch {
	case *plan != "":
		p, err := ParsePlan(*plan)
		if err != nil {
			t.Fatal(err)
		}
		one(t, "plan", p)
	case *seed != 0:
		one(t, fmt.Sprint("seed-", *seed), NewPlan(*seed))
	default:
		for s := uint64(1); s <= uint64(*seeds); s++ {
			one(t, fmt.Sprint("seed-", s), NewPlan(s))
			if t.Failed() {
				return
			}
		}
	}
}
