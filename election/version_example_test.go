// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// newestLeads returns the priority of a candidate of a semantic version, such as v2.4.1: a higher one for a newer minor
// version. Patches have equal priorities, since there are only MaxPriority+1. A version that has no priority of its own is an
// error: a smaller value would let the wrong version lead.
func newestLeads(version string) (int, error) {
	const minors = 100
	var major, minor int
	if _, err := fmt.Sscanf(version, "v%d.%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("priority of version %q: %w", version, err)
	}
	priority := major*minors + minor
	if major < 0 || minor < 0 || minor >= minors || priority > election.MaxPriority {
		return 0, fmt.Errorf("priority of version %q: want v0.0 to v9.99", version)
	}
	return priority, nil
}

// oldestLeads returns a higher priority for an older minor version.
func oldestLeads(version string) (int, error) {
	priority, err := newestLeads(version)
	return election.MaxPriority - priority, err
}

// During a rollout, the oldest version leads while a candidate of it is left: a newer leader would store what older candidates
// cannot read, should the rollout be undone. With newestLeads instead, the newest version leads.
func ExampleOptions_oldestVersionLeads() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	defer func() { running.Wait(); client.Close() }()

	leads := make(chan string)
	leader := func() string {
		select {
		case owner := <-leads:
			return owner
		case <-ctx.Done():
			return "no candidate"
		}
	}
	run := func(pod, version string) context.CancelFunc { // in a program, each in a separate process
		priority, err := oldestLeads(version) // of debug.ReadBuildInfo, or set by the linker
		if err != nil {
			log.Fatal(err)
		}
		e, err := election.New(client, "/election/rollout", &election.Options{
			Owner: pod + " " + version, Priority: priority,
			PriorityWait: 10 * time.Second, // bounds the delay by an old candidate that is dead
		})
		if err != nil {
			log.Fatal(err)
		}
		before, err := e.Candidates(ctx)
		if err != nil {
			log.Fatal(err)
		}
		ctx, stop := context.WithCancel(ctx)
		running.Go(func() {
			err := e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				select {
				case leads <- term.Owner():
				case <-ctx.Done():
				}
				<-ctx.Done() // here the work goes on until it must stop
				return context.Cause(ctx)
			})
			if err != nil {
				log.Print(err)
			}
		})
		for joined := len(before); joined == len(before); {
			all, err := e.Candidates(ctx)
			if err != nil {
				log.Fatal(err)
			}
			joined = len(all)
		}
		return stop
	}
	stop1 := run("pod-1", "v2.4.1")
	fmt.Println(leader(), "leads")
	stop2 := run("pod-2", "v2.5.0") // the rollout has begun
	stop3 := run("pod-3", "v2.4.1")
	stop1()
	fmt.Println(leader(), "leads")
	stop3()
	fmt.Println(leader(), "leads: no candidate is older")
	stop2()
	// Output:
	// pod-1 v2.4.1 leads
	// pod-3 v2.4.1 leads
	// pod-2 v2.5.0 leads: no candidate is older
}
