// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Schedule is the resource that leaders write. It checks the token of each write, because a leader that was paused does
// not know that another candidate leads.
type Schedule struct {
	mu    sync.Mutex
	gate  fencing.Gate // called under mu, so that no newer write comes between the check and this write
	entry string       // guarded by mu
}

// Put writes entry, unless a newer token was admitted before.
func (s *Schedule) Put(ctx context.Context, token fencing.Token, entry string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := errors.Join(ctx.Err(), s.gate.Admit(token)); err != nil {
		return fmt.Errorf("schedule: put %q: %w", entry, err)
	}
	s.entry = entry
	return nil
}

// The work returns when its context is done, and is called again for the next term. Run returns when ctx is done, or when
// the work fails.
func ExampleElection_Run() {
	ctx, stop := context.WithCancel(context.Background()) // in a program: signal.NotifyContext
	defer stop()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	controller, err := election.New(client, "/election/controller", &election.Options{Owner: "pod-7"})
	if err != nil {
		log.Fatal(err)
	}
	var schedule Schedule
	jobs := make(chan string, 2)
	jobs <- "backup"
	jobs <- "report"

	err = controller.Run(ctx, func(ctx context.Context, term *election.Term) error {
		fmt.Println("leading as", term.Owner())
		for {
			select {
			case job := <-jobs:
				if err := schedule.Put(ctx, term.Token(), job); err != nil {
					return err // fencing.ErrStale if a later leader has written already
				}
				fmt.Println("scheduled", job)
				if job == "report" {
					stop() // as SIGTERM does in a program
				}
			case <-ctx.Done():
				return context.Cause(ctx) // the program is stopping, or the term was lost
			}
		}
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("stopped, all nodes released")
	// Output:
	// leading as pod-7
	// scheduled backup
	// scheduled report
	// stopped, all nodes released
}

// An observer follows the leader without being a candidate.
func ExampleElection_Observe() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lead := func(id string) *election.Term {
		candidate, err := election.New(client, "/election/observed", &election.Options{Owner: id})
		if err != nil {
			log.Fatal(err)
		}
		term, err := candidate.Campaign(ctx)
		if err != nil {
			log.Fatal(err)
		}
		return term
	}
	term := lead("pod-1")

	follower, err := election.New(client, "/election/observed", nil)
	if err != nil {
		log.Fatal(err)
	}
	for leader, err := range follower.Observe(ctx) {
		if err != nil {
			log.Fatal(err) // the reason why Observe ends
		}
		fmt.Println("orders come from", leader.Owner)
		if leader.Owner == "pod-2" {
			break
		}
		if err := term.Resign(ctx); err != nil {
			log.Fatal(err)
		}
		term = lead("pod-2")
	}
	if err := term.Resign(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// orders come from pod-1
	// orders come from pod-2
}

// Campaign is for programs that end their terms themselves. Each term has a greater token than all terms before it, so
// that a delayed write of a former leader is rejected.
func ExampleElection_Campaign() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	controller, err := election.New(client, "/election/campaign", nil)
	if err != nil {
		log.Fatal(err)
	}
	var schedule Schedule

	lead := func(entry string) (token fencing.Token, err error) {
		term, err := controller.Campaign(ctx) // ctx bounds the wait, not the term
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, term.Resign(ctx)) }() // ErrLost if the term was lost before
		work, cancel := term.Context(ctx)                           // done when ctx is, or when the term is lost
		defer cancel()
		return term.Token(), schedule.Put(work, term.Token(), entry)
	}
	early, err := lead("backup")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := lead("report"); err != nil {
		log.Fatal(err)
	}

	err = schedule.Put(ctx, early, "cleanup") // delayed by the network
	fmt.Println("rejected as stale:", errors.Is(err, fencing.ErrStale))
	fmt.Println("schedule:", schedule.entry)
	// Output:
	// rejected as stale: true
	// schedule: report
}

// A leader publishes its address, and that it is about to resign. Clients send it no further requests then.
func ExampleTerm_Proclaim() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	api, err := election.New(client, "/election/api", &election.Options{Owner: "pod-7"})
	if err != nil {
		log.Fatal(err)
	}
	term, err := api.Campaign(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := term.Resign(ctx); err != nil {
			log.Print(err)
		}
	}()
	if err := term.Proclaim(ctx, "10.0.0.7:8443"); err != nil {
		log.Fatal(err)
	}
	for leader, err := range api.Observe(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s at %s, draining: %t\n", leader.Owner, leader.Value, leader.Draining)
		if leader.Draining {
			break
		}
		if err := term.Drain(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// pod-7 at 10.0.0.7:8443, draining: false
	// pod-7 at 10.0.0.7:8443, draining: true
}
