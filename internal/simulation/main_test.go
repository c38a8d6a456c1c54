// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/check"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

var (
	seeds  = flag.Int("sim.seeds", ifRace(40, 3000), "how many seeded plans to run")
	every  = flag.Int("sim.every", ifRace(11, 1), "cut every frame of this number only, from a random one on")
	first  = flag.Int("sim.first", 1, "the seed of the first of them")
	seed   = flag.Uint64("sim.seed", 0, "run the plan of this seed and no other")
	plan   = flag.String("sim.plan", "", "run this plan and no other, in its text form")
	repeat = flag.Int("sim.repeat", 20, "how often to run the one plan: goroutines do not always run in the same order")
	reduce = flag.Bool("sim.reduce", false, "leave steps of the one plan out, for as long as it still fails in one of its repetitions")
	cut    = flag.String("sim.cut", "", "tell scenarios with this cut and no other, in its text form")
	mutant = flag.Bool("sim.mutant", false, "the recipes were broken on purpose: stop at the first finding, and keep no history")
)

// atLeast is how many runs there are by default.
const atLeast = 10_000

// tried counts the runs, by kind.
var tried struct{ cuts, instants, plans atomic.Int64 }

func ifRace(yes, no int) int {
	if underRace {
		return yes
	}
	return no
}

func TestMain(m *testing.M) {
	flag.Parse()
	zk.DefaultLogger = log.New(io.Discard, "", 0)
	// Each connection of the ZooKeeper client has buffers of 3 MiB, most of which nobody touches.
	debug.SetGCPercent(400)
	if underRace {
		// With Go 1.26 the race detector crashes when two timers of one bubble that are due are received from on two
		// processors at once.
		runtime.GOMAXPROCS(1)
	}
	began := time.Now()
	code := m.Run()
	cuts, instants, plans := tried.cuts.Load(), tried.instants.Load(), tried.plans.Load()
	total := cuts + instants + plans
	fmt.Printf("simulation: %d runs in %v: %d scenarios with cuts, %d cuts at one instant after the other, %d seeded plans\n",
		total, time.Since(began).Round(time.Second), cuts, instants, plans)
	if code == 0 && !underRace && flag.NFlag() == defaultFlags() && total < atLeast {
		fmt.Printf("FAIL: the default is to try %d runs at least\n", atLeast)
		code = 1
	}
	os.Exit(code)
}

// defaultFlags is how many of the flags that are set choose no runs of their own.
func defaultFlags() int {
	n := 0
	flag.Visit(func(f *flag.Flag) {
		switch f.Name {
		case "test.paniconexit0", "test.timeout", "test.v", "test.shuffle", "test.count", "sim.every":
			n++
		}
	})
	return n
}

// enough says that so much was found that there is no point in going on.
func enough() bool { return found.Load() >= int64(tolerated()) }

var found atomic.Int64

func tolerated() int {
	if *mutant {
		return 1
	}
	return 5
}

// judged runs a run in a bubble, and reports what is wrong with it. again is how to repeat it.
func judged(t *testing.T, name, again string, run func() ([]history.Event, error)) (fine bool) {
	t.Helper()
	events, faults := inBubble(t, name, run)
	if len(faults) == 0 {
		return true
	}
	found.Add(1)
	t.Errorf("%s\n%s\nits history: %s\nagain: go test ./internal/simulation %s",
		name, strings.Join(faults, "\n"), keep(t, events), again)
	return false
}

// inBubble runs a run in a bubble, and says what is wrong with it.
func inBubble(t *testing.T, name string, run func() ([]history.Event, error)) (events []history.Event, faults []string) {
	t.Helper()
	dog := watch(name)
	defer dog.Stop()
	err := inSynctest(t, func() (err error) {
		events, err = run()
		return err
	})
	if err != nil {
		faults = append(faults, err.Error())
	}
	for _, f := range check.History(events) {
		faults = append(faults, f.String())
	}
	return events, faults
}

// inSynctest returns the run's error, or that it left goroutines behind.
func inSynctest(t *testing.T, run func() error) (err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the bubble does not end: %v", r)
		}
	}()
	synctest.Test(t, func(*testing.T) { err = run() })
	return err
}

// watch ends the process if a run does not end: in a bubble whose clock can go on for ever nothing else can.
func watch(name string) *time.Timer {
	limit := time.Minute * time.Duration(ifRace(5, 1))
	return time.AfterFunc(limit, func() {
		fmt.Printf("--- FAIL: after %v of real time this run has not ended: %s\n", limit, name)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
		os.Exit(1)
	})
}

// keep writes the history of a run that went wrong to a file, and returns its name.
func keep(t *testing.T, events []history.Event) string {
	t.Helper()
	if *mutant {
		return "not kept"
	}
	dir, err := os.MkdirTemp("", "lockkeeper-simulation-") //nolint:usetesting // it is to be there when the test is over
	if err != nil {
		return err.Error()
	}
	name := filepath.Join(dir, "history.jsonl")
	file, err := os.Create(name)
	if err != nil {
		return err.Error()
	}
	if err := history.Write(file, events); err != nil {
		t.Error(err)
	}
	if err := file.Close(); err != nil {
		t.Error(err)
	}
	return name
}
