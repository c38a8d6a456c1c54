// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Campaign runs the simulation and the torture by turns, each with seeds that no campaign has used, until a time is over or it is
// interrupted. Each part that has ended is added to the document of all campaigns, of which docs/evidence.md shows the sums. The folder of
// a part with findings is kept, and named at the end.
//
//	campaign [-hours 1] [-plans 3000] [-torture 10m] [-images IMAGE,…] [-only simulation|torture] [-docs DIR]
//
// The torture uses three and five servers by turns, and of -images one after the other. It takes the checkout as it is: commit first,
// because a test fails if no commit has the product that ran.
//
// The status is 0 if there is no finding, 1 if there is one, and 2 if nothing could be run.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/evidence"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

func main() {
	c := campaign{}
	hours := flag.Float64("hours", 1, "how long to run")
	flag.IntVar(&c.plans, "plans", 3000, "seeds of each part of the simulation: a plan for each, and for some another one with a lock service")
	flag.DurationVar(&c.length, "torture", 10*time.Minute, "length of each part of the torture")
	images := flag.String("images", "", "server `images` for the torture, one after the other (default: what the environment says)")
	flag.StringVar(&c.only, "only", "", "simulation or torture (default: both by turns)")
	flag.StringVar(&c.docs, "docs", "../docs", "the `folder` of the documentation")
	flag.Parse()
	if *images != "" {
		c.images = strings.Split(*images, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(*hours*float64(time.Hour)))
	defer cancel()
	kept, err := c.run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(2)
	case len(kept) > 0:
		fmt.Fprintf(os.Stderr, "campaign: findings:\n  %s\n", strings.Join(kept, "\n  "))
		os.Exit(1)
	}
}

// A campaign is one call of the program.
type campaign struct {
	plans  int
	length time.Duration
	images []string
	only   string
	docs   string

	dir string // of the programs and of the parts
}

// run runs parts until ctx is done. It returns the folders of those with findings.
func (c *campaign) run(ctx context.Context) (kept []string, err error) {
	trees, err := verdict.Trees()
	if err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "lockkeeper-campaign-"); err != nil {
		return nil, err
	}
	defer func() {
		if len(kept) == 0 {
			err = errors.Join(err, os.RemoveAll(c.dir))
		}
	}()
	for _, build := range [][]string{{"test", "-c", "-o", c.file("simulation.test"), "./simulation"}, {"build", "-o", c.file("torture"), "./torture/cmd/torture"}} {
		if out, err := exec.CommandContext(ctx, "go", build...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(build, " "), err, out)
		}
	}
	for turn := 0; ctx.Err() == nil; turn++ {
		document, err := evidence.ReadCampaign(filepath.Join(c.docs, "evidence"))
		if err != nil {
			return kept, err
		}
		part := evidence.Part{Started: time.Now().UTC().Truncate(time.Second), Seed: document.NextSeed()}
		dir := c.file(strconv.Itoa(part.Seed))
		simulates := c.only == "simulation" || c.only == "" && turn%2 == 0
		ran := trees
		if simulates {
			err = c.simulate(ctx, dir, &part)
		} else {
			ran, err = c.torture(ctx, dir, turn/2, &part)
		}
		if ctx.Err() != nil {
			// A part that was interrupted counts for nothing. What it has found is kept.
			histories, err := filepath.Glob(filepath.Join(dir, "lockkeeper-simulation-*"))
			if part.Findings > 0 || len(histories) > 0 {
				kept = append(kept, dir)
			}
			return kept, err
		}
		if err != nil {
			return kept, err
		}
		if part.Findings > 0 || part.Unsound {
			kept = append(kept, dir)
		} else if err := os.RemoveAll(dir); err != nil {
			return kept, err
		}
		part.Code = document.CodeOf(ran)
		document.Parts = append(document.Parts, part)
		if err := document.Write(filepath.Join(c.docs, "evidence")); err != nil {
			return kept, err
		}
		for _, s := range document.Sums() {
			fmt.Printf("%s: %d parts, %v, %d faults, %d grants, %d findings\n", s.On, s.Parts, time.Duration(s.Lasted).Round(time.Second), s.Faults, s.Grants, s.Findings)
		}
	}
	return kept, nil
}

func (c *campaign) file(name string) string { return filepath.Join(c.dir, name) }

// simulate runs plans from the part's seed on. The plans without a lock service have the same seeds as those with one.
func (c *campaign) simulate(ctx context.Context, dir string, part *evidence.Part) error {
	part.Seeds = c.plans
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	counts := filepath.Join(dir, "counts.json")
	cmd := exec.CommandContext(ctx, c.file("simulation.test"), "-test.timeout", "0", "-test.run", "^TestNo(Lease)?PlanBreaksPromise$",
		"-sim.seeds", strconv.Itoa(part.Seeds), "-sim.first", strconv.Itoa(part.Seed), "-sim.counts", counts)
	cmd.Dir = "simulation"
	cmd.Env = append(os.Environ(), "TMPDIR="+dir) // where it saves the histories of findings
	out, failed := cmd.CombinedOutput()
	var run struct {
		Simulated                       history.Instant
		Plans, Faults, Grants, Findings int
	}
	content, err := os.ReadFile(counts)
	if err == nil {
		err = json.Unmarshal(content, &run)
	}
	if err != nil {
		return fmt.Errorf("simulation from seed %d: %w\n%s", part.Seed, errors.Join(failed, err), out)
	}
	if failed != nil && run.Findings == 0 {
		return fmt.Errorf("simulation from seed %d: %w\n%s", part.Seed, failed, out)
	}
	part.Plans, part.Lasted, part.Faults, part.Grants, part.Findings = run.Plans, run.Simulated, run.Faults, run.Grants, run.Findings
	return os.WriteFile(filepath.Join(dir, "output.txt"), out, 0o644)
}

// torture runs the torture once, and returns the trees of the checkout from which it built its contenders.
func (c *campaign) torture(ctx context.Context, dir string, turn int, part *evidence.Part) (trees map[string]string, err error) {
	servers := 3 + turn%2*2
	cmd := exec.CommandContext(ctx, c.file("torture"), "-duration", c.length.String(), "-servers", strconv.Itoa(servers),
		"-seed", strconv.Itoa(part.Seed), "-out", dir)
	cmd.Env = os.Environ()
	if len(c.images) > 0 {
		cmd.Env = append(cmd.Env, "ZK_TEST_IMAGE="+c.images[turn/2%len(c.images)])
	}
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes what it has created
	cmd.WaitDelay = 2 * time.Minute
	failed := cmd.Run()
	var result verdict.Result
	content, err := os.ReadFile(filepath.Join(dir, "result.json"))
	if err == nil {
		err = json.Unmarshal(content, &result)
	}
	if err != nil {
		return nil, fmt.Errorf("torture with seed %d: %w", part.Seed, errors.Join(failed, err))
	}
	run := evidence.Run{Result: result}
	part.On = fmt.Sprintf("torture of %d servers, ZooKeeper %s", servers, result.ZooKeeper)
	part.Lasted, part.Faults, part.Grants = result.Duration, run.Injected(), result.Numbers.Grants
	part.Findings, part.Unsound = len(result.Findings)+len(result.Problems), result.Verdict == verdict.Unsound
	return result.Trees, nil
}
