// SPDX-License-Identifier: Apache-2.0

// Controllerruntime is a program on sigs.k8s.io/controller-runtime whose manager is elected by ZooKeeper. The manager has two
// Runnables: one serves on every replica, and one needs leader election. The example runs two replicas, expires the session of
// the leader, and shows that its Runnable ends, that its manager stops, and that the other replica leads. It needs Go only,
// and no API server: a manager without controllers sends no request.
//
//	go run ./controllerruntime
//
// Copy func run, and give it your rest.Config.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// run runs a manager until ctx is done, or the replica that leads can no longer do so. Then the process exits, and Kubernetes
// starts it again. The error matches recipes.ErrLost if the term was lost.
func run(ctx context.Context, client *recipes.Client, replica string, config *rest.Config, serve, lead manager.RunnableFunc) error {
	e, err := election.New(client, "/election/controllers", &election.Options{Owner: replica})
	if err != nil {
		return err
	}
	return clientgo.WithLock(ctx, e, replica, func(ctx context.Context, lock *clientgo.Lock) error {
		retry := 100 * time.Millisecond // how often the manager asks the lock, which sends nothing while the replica leads
		m, err := manager.New(config, manager.Options{
			LeaderElection:                      true,
			LeaderElectionID:                    "controllers", // for metrics
			LeaderElectionResourceLockInterface: lock,
			LeaderElectionReleaseOnCancel:       true,
			RetryPeriod:                         &retry,
			BaseContext:                         lock.Context,                            // ends the Runnables at a loss, immediately
			Metrics:                             metricsserver.Options{BindAddress: "0"}, // none, as two replicas share this process
			Logger:                              logr.Discard(),                          // yours
		})
		if err != nil {
			return err
		}
		if err := errors.Join(m.Add(everywhere{serve}), m.Add(lead)); err != nil { // so are controllers that a builder adds
			return err
		}
		err = m.Start(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			// A Runnable still runs after GracefulShutdownTimeout. WithLock would resign, and another replica would lead beside it.
			fmt.Fprintln(os.Stderr, replica, "exits:", err)
			os.Exit(1)
		}
		return err
	})
}

// everywhere is a Runnable for each replica. Runnables without NeedLeaderElection run on the leader only.
type everywhere struct{ manager.RunnableFunc }

func (everywhere) NeedLeaderElection() bool { return false }

func main() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	err := show(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "controllerruntime:", err)
		os.Exit(1)
	}
}

// show runs two replicas until the second one leads and the first one has ended.
func show(ctx context.Context) (err error) {
	ensemble, err := zktest.Run(ctx, nil) // your ZooKeeper servers
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ensemble.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	leads := make(chan *recipes.Client)
	var replicas sync.WaitGroup
	errs := make(chan error, 2)
	for _, name := range []string{"pod-1", "pod-2"} {
		replicas.Go(func() { errs <- replica(ctx, name, ensemble.Addrs(), leads) })
	}
	for _, f := range []func(leader *recipes.Client) error{
		func(leader *recipes.Client) error { return ensemble.Expire(ctx, leader.SessionID()) },
		func(*recipes.Client) error { return <-errs }, // after a forced expiry, the next leader may be notified first
	} {
		select {
		case leader := <-leads:
			err = errors.Join(err, f(leader))
		case <-ctx.Done():
			err = errors.Join(err, ctx.Err())
		}
	}
	stop()
	replicas.Wait()
	close(errs)
	for exit := range errs {
		err = errors.Join(err, exit)
	}
	return err
}

// replica is one process. It returns nil if its term was lost, and sends its client when it leads.
func replica(ctx context.Context, name string, servers []string, leads chan<- *recipes.Client) error {
	client, err := recipes.Connect(ctx, servers, &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer client.Close()
	serve := func(ctx context.Context) error {
		fmt.Println(name, "serves")
		<-ctx.Done()
		return nil
	}
	lead := func(ctx context.Context) error {
		fmt.Println(name, "leads")
		select {
		case leads <- client:
		case <-ctx.Done():
		}
		<-ctx.Done() // controllers reconcile here
		fmt.Println(name, "leads no longer:", context.Cause(ctx))
		return nil
	}
	nowhere := &rest.Config{Host: "http://192.0.2.1"} // an address for documentation
	err = run(ctx, client, name, nowhere, serve, lead)
	fmt.Println(name, "exits:", err)
	if errors.Is(err, recipes.ErrLost) {
		return nil
	}
	return err
}
