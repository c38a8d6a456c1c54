// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A ground is what a demo is played on: servers, and how to reach them.
type ground struct {
	called  string        // by people
	servers []string      // for recipes.Connect
	timeout time.Duration // session timeout to ask for
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	close   func() error
}

// groundFor is the ensemble that the arguments name, or else one in this process.
// It is to be closed, after those who use it.
func groundFor(args *demoArguments) (*ground, error) {
	g := &ground{
		called:  strings.Join(args.servers, ", "),
		servers: args.servers,
		timeout: args.timeout,
		dial:    (&net.Dialer{}).DialContext,
		close:   func() error { return nil },
	}
	if len(args.servers) > 0 {
		return g, nil
	}
	ensemble, err := zktest.Listen(&zktest.Options{Servers: 3, Tick: tickFor(args.timeout)})
	if err != nil {
		return nil, err
	}
	g.called = "3 servers in this process (zktest)"
	g.servers, g.close = ensemble.Servers(), ensemble.Close
	return g, nil
}

// tickFor is a tick that suits the session timeout: a holder is told in time from
// four ticks on.
func tickFor(timeout time.Duration) time.Duration {
	return min((timeout / 8).Truncate(time.Millisecond), time.Hour)
}
