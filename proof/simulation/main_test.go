// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

var (
	seeds  = flag.Int("sim.seeds", ifRace(10, 3000), "number of seeded plans to run")
	every  = flag.Int("sim.every", ifRace(51, 1), "cut one frame of this many, from a random one on")
	first  = flag.Int("sim.first", 1, "seed of the first plan")
	seed   = flag.Uint64("sim.seed", 0, "run only the plan of this seed")
	plan   = flag.String("sim.plan", "", "run only this plan, in its text form")
	repeat = flag.Int("sim.repeat", 20, "number of runs of the one plan: goroutines do not always run in the same order")
	shrink = flag.Bool("sim.shrink", false, "remove steps of the one plan while it still fails in one of its runs")
	cut    = flag.String("sim.cut", "", "run scenarios with only this cut, in its text form")
	counts = flag.String("sim.counts", "", "write what the plans were, in sum, to this file")
	mutant = flag.Bool("sim.mutant", false, "the recipes are a mutant: stop at the first finding, and save no history")
)

// minRuns is the least number of runs with the default flags.
const minRuns = 10_000

// runs counts the runs by kind.
var runs struct{ cuts, instants, plans atomic.Int64 }

// sums are sums over all runs.
var sums struct{ simulated, faults, grants atomic.Int64 }

// noFault matches the text of a Fault that only ends one, or that makes one together with the cut beside it.
var noFault = regexp.MustCompile(`^(\w+ )?(wake|release|accept|start|mend|unmute|heal)\b|^\w+ (refuse|(refuse|cut)-watches \d+)$|\b(delay|lag)( \d+)? 0s$`)

// addUp adds a history to the sums. A process that is paused or has crashed by a fault records that, too: it is not counted again.
func addUp(events []history.Event) {
	if len(events) == 0 {
		return
	}
	sums.simulated.Add(int64(events[len(events)-1].At - events[0].At))
	for _, e := range events {
		switch {
		case e.Kind == history.Fault && !noFault.MatchString(e.Text):
			sums.faults.Add(1)
		case e.Kind == history.Granted:
			sums.grants.Add(1)
		}
	}
}

// writeCounts writes the sums to the file.
func writeCounts(file string) error {
	content, err := json.Marshal(map[string]any{
		"plans": runs.plans.Load(), "simulated": history.Instant(sums.simulated.Load()),
		"faults": sums.faults.Load(), "grants": sums.grants.Load(), "findings": failures.Load(),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

// repeats returns how often a test repeats a run whose goroutines are scheduled in another order each time: a quarter in a sample.
func repeats(all int) int {
	if *every > 1 && !need.RaceDetector {
		return (all + 3) / 4
	}
	return all
}

// ifRace returns yes under the race detector, and no otherwise.
func ifRace(yes, no int) int {
	if need.RaceDetector {
		return yes
	}
	return no
}

func TestMain(m *testing.M) {
	flag.Parse()
	zk.DefaultLogger = log.New(io.Discard, "", 0)
	// Each connection of the ZooKeeper client has buffers of 3 MiB and uses little of them. With 400, a run costs a fifth more.
	debug.SetGCPercent(ifRace(400, 1000))
	if need.RaceDetector {
		// The race detector of Go 1.26 crashes when two processors receive from two due timers of one bubble at the same time.
		runtime.GOMAXPROCS(1)
	}
	began := time.Now()
	code := m.Run()
	cuts, instants, plans := runs.cuts.Load(), runs.instants.Load(), runs.plans.Load()
	total := cuts + instants + plans
	if *counts != "" {
		if err := writeCounts(*counts); err != nil {
			fmt.Printf("FAIL: write counts: %v\n", err)
			code = 1
		}
	}
	fmt.Printf("simulation: %d runs in %v: %d of scenarios with cuts, %d of sweeps and instants, %d of seeded plans\n",
		total, time.Since(began).Round(time.Second), cuts, instants, plans)
	if code == 0 && !need.RaceDetector && flag.NFlag() == defaultFlags() && total < minRuns {
		fmt.Printf("FAIL: %d runs: the default flags must run at least %d\n", total, minRuns)
		code = 1
	}
	os.Exit(code)
}

// defaultFlags returns the number of set flags that leave the choice of runs to the defaults.
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

// enoughFailures reports whether so many runs failed that more would add nothing.
func enoughFailures() bool { return failures.Load() >= int64(maxFailures()) }

// failures counts the runs that failed.
var failures atomic.Int64

// maxFailures returns the number of failures that ends the test.
func maxFailures() int {
	if *mutant {
		return 1
	}
	return 5
}

// runAndCheck runs a run in a bubble, fails the test if it has problems or findings, and reports whether it passed. flags
// are those that repeat it.
func runAndCheck(t *testing.T, name, flags string, run func() ([]history.Event, error)) (passed bool) {
	t.Helper()
	events, wrong := inBubble(t, name, run)
	if len(wrong) == 0 {
		return true
	}
	failures.Add(1)
	t.Errorf("%s\n%s\nhistory: %s\nrepeat: go test ./proof/simulation %s",
		name, strings.Join(wrong, "\n"), saveHistory(t, events), flags)
	return false
}

// inBubble runs a run in a bubble, and returns its history, and its problems and findings.
func inBubble(t *testing.T, name string, run func() ([]history.Event, error)) (events []history.Event, wrong []string) {
	t.Helper()
	watchdog := watch(name)
	defer watchdog.Stop()
	err := inSynctest(t, name, func() (err error) {
		events, err = run()
		return err
	})
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	addUp(events)
	for _, f := range check.History(events) {
		wrong = append(wrong, f.String())
	}
	return events, wrong
}

// inSynctest returns the error of a run, or an error if it left goroutines behind.
func inSynctest(t *testing.T, name string, run func() error) (err error) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("bubble does not end: %v", r)
		}
	}()
	synctest.Test(t, func(*testing.T) {
		defer faketime.Bound(name)()
		err = run()
	})
	return err
}

// watch ends the process if a run does not end in real time: a goroutine spins, or the machine is overloaded. A run takes
// seconds at most. Its status tells the test of the mutants that this is no finding; faketime.Bound is one, and ends a run that
// waits.
func watch(name string) *time.Timer {
	const limit = 5 * time.Minute
	return time.AfterFunc(limit, func() {
		fmt.Printf("--- FAIL: %s: not ended after %v of real time\n", name, limit)
		_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
		os.Exit(statusWatchdog)
	})
}

// statusWatchdog is the status of a process that watch ended. Package mutants knows it.
const statusWatchdog = 3

// saveHistory writes the history of a failed run to a file, and returns its name.
func saveHistory(t *testing.T, events []history.Event) string {
	t.Helper()
	if *mutant {
		return "not saved"
	}
	dir, err := os.MkdirTemp("", "lockkeeper-simulation-") //nolint:usetesting // it must outlive the test
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
