// SPDX-License-Identifier: Apache-2.0

// Rollout is a leader-only worker whose rolling update does not wait for itself. A Deployment stops an old pod once a new one is
// ready, and the new one leads once the old one has stopped. So readiness must not depend on leadership: /readyz reports whether
// the pod can campaign, by Client.Ready, and only /leading reports whether it leads, by Election.Ready. deployment.yaml is the
// manifest.
//
//	go run ./rollout -servers localhost:2181
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func main() {
	servers := flag.String("servers", "localhost:2181", "connect string of the ensemble")
	listen := flag.String("listen", ":8080", "address of the probes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *servers, *listen)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "rollout:", err)
		os.Exit(1) // also ends work that has overrun
	}
	fmt.Println("released, exit")
}

// run campaigns and leads until ctx is done. It resigns before it returns, unless the error is election.ErrOverrun:
// then exit the process.
func run(ctx context.Context, servers, listen string) (err error) {
	client, err := recipes.Connect(ctx, []string{servers}, nil)
	if err != nil {
		return err
	}
	defer func() {
		// Work that has overrun runs until main exits. Close would delete its node, and another pod would lead beside it.
		if !errors.Is(err, election.ErrOverrun) {
			client.Close()
		}
	}()
	e, err := election.New(client, "/election/rollout", &election.Options{
		StopTimeout: 15 * time.Second, ReleaseTimeout: 10 * time.Second, // in all less than terminationGracePeriodSeconds
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: probes(client, e), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		err = errors.Join(err, server.Close())
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}()
	fmt.Println("serves", listener.Addr())
	return e.Run(ctx, func(ctx context.Context, term *election.Term) error {
		fmt.Println("leads with token", term.Token())
		<-ctx.Done() // work here, and send the token with each write
		fmt.Println("stops:", context.Cause(ctx))
		return context.Cause(ctx)
	})
}

func probes(client *recipes.Client, e *election.Election) http.Handler {
	mux := http.NewServeMux()
	report := func(ready func() error) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if err := ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
			}
		}
	}
	mux.HandleFunc("GET /readyz", report(client.Ready)) // a Deployment waits for this
	mux.HandleFunc("GET /leading", report(e.Ready))     // for people, or a proxy that sends requests to the leader
	return mux
}
