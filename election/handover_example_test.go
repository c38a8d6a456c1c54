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

// A leader hands its term over to the candidate that an operator has named, before the one that is next in the queue. Run
// stops the work, resigns, and campaigns again.
func ExampleTerm_HandOver() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	defer func() { stop(); running.Wait(); client.Close() }()

	leads := make(chan *election.Term)
	run := func(id string) *election.Election { // in a program, each in a separate process
		e, err := election.New(client, "/election/handover", &election.Options{Owner: id})
		if err != nil {
			log.Fatal(err)
		}
		running.Go(func() {
			_ = e.Run(ctx, func(ctx context.Context, term *election.Term) error {
				select {
				case leads <- term:
				case <-ctx.Done():
				}
				<-ctx.Done() // here the work goes on until it must stop
				return context.Cause(ctx)
			})
		})
		return e
	}
	controller := run("pod-1")
	term := <-leads
	for i, id := range []string{"pod-2", "pod-3"} { // they join the queue in this order
		run(id)
		for candidates := 0; candidates < i+2; {
			all, err := controller.Candidates(ctx)
			if err != nil {
				log.Fatal(err)
			}
			candidates = len(all)
		}
	}

	if _, err := term.HandOver(ctx, "pod-9"); err != nil {
		fmt.Println(err)
	}
	handOver, err := term.HandOver(ctx, "pod-3")
	if err != nil {
		log.Fatal(err)
	}
	leader, err := handOver.Wait(ctx) // in the program of the operator; the work must not wait for this
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next is", leader.Owner)
	fmt.Println("leading as", (<-leads).Owner())
	// Output:
	// hand over: find candidate /election/handover: not a candidate: "pod-9"
	// next is pod-3
	// leading as pod-3
}
