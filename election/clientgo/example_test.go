// SPDX-License-Identifier: Apache-2.0

package clientgo_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// connect returns an election on the servers of ZK_SERVERS, and a function that ends its client.
func connect(ctx context.Context, id string) (*election.Election, func()) {
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := election.New(client, "/election/controller", &election.Options{Owner: id})
	if err != nil {
		log.Fatal(err)
	}
	return e, func() { client.Close() }
}

// A program passes the callbacks that it has for leaderelection.RunOrDie.
func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, closeAll := connect(ctx, "pod-7")
	defer closeAll()
	err := clientgo.Run(ctx, e, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			fmt.Println("leads")
			stop() // on SIGTERM, say
			<-ctx.Done()
		},
		OnStoppedLeading: func() { fmt.Println("stopped") },
	})
	fmt.Println("error:", err)
	// Output:
	// leads
	// stopped
	// error: <nil>
}

// A leaderOnly is a Runnable of controller-runtime: add it by Manager.Add to a manager whose options have LeaderElection:
// false. The manager starts it on every replica, and its work runs on the leader. The manager ends when the term has ended,
// with an error if the term was lost. Then exit the process.
type leaderOnly struct {
	election *election.Election
	work     func(ctx context.Context) // such as Start of a second manager, which has the controllers
}

func (r leaderOnly) Start(ctx context.Context) error {
	return clientgo.Run(ctx, r.election, leaderelection.LeaderCallbacks{
		OnStartedLeading: r.work,
		OnStoppedLeading: func() {},
	})
}

func ExampleRun_controllerRuntime() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	e, closeAll := connect(ctx, "pod-7")
	defer closeAll()
	runnable := leaderOnly{election: e, work: func(context.Context) {
		fmt.Println("leads")
		stop() // as a manager does when its context is done
	}}
	fmt.Println("error:", runnable.Start(ctx))
	// Output:
	// leads
	// error: <nil>
}
