// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A target is the ensemble that a demo uses, and the way to reach it.
type target struct {
	name    string        // for the output
	servers []string      // the argument of recipes.Connect
	timeout time.Duration // the session timeout to request
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	close   func() error
}

// targetFor returns the ensemble that the arguments name, or else a new one in this
// process. The caller closes it after its clients.
func targetFor(args *demoArguments) (*target, error) {
	t := &target{
		name:    strings.Join(args.servers, ", "),
		servers: args.servers,
		timeout: args.timeout,
		dial:    (&net.Dialer{}).DialContext,
		close:   func() error { return nil },
	}
	if len(args.servers) > 0 {
		return t, nil
	}
	ensemble, err := zktest.Run(context.Background(), &zktest.Options{Servers: 3, Tick: tickFor(args.timeout)})
	if err != nil {
		return nil, err
	}
	t.name = "3 servers in this process (zktest)"
	t.servers, t.close = ensemble.Addrs(), ensemble.Close
	return t, nil
}

// tickFor returns a tick that suits the session timeout, which must be at least four
// ticks for a holder to be notified in time.
func tickFor(timeout time.Duration) time.Duration {
	return min((timeout / 8).Truncate(time.Millisecond), time.Hour)
}
