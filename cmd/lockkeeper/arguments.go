// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// The arguments of a demo.
type arguments struct {
	servers []string      // host:port each
	timeout time.Duration // session timeout to ask for
}

// parse reads the arguments of the demo. Its error is flag.ErrHelp for those who
// ask for help.
func parse(args []string) (*arguments, error) {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // the error says it, and run shows the usage
	list := flags.String("servers", os.Getenv("ZK_SERVERS"), "")
	timeout := flags.Duration("timeout", 4*time.Second, "")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("takes flags only, not %q", flags.Args())
	}
	if *timeout < time.Second {
		return nil, fmt.Errorf("--timeout %v is below the minimum of %v", *timeout, time.Second)
	}
	servers, err := parseServers(*list)
	if err != nil {
		return nil, err
	}
	return &arguments{servers: servers, timeout: *timeout}, nil
}

// parseServers refuses at once, as a mistake in the arguments, what would
// otherwise look like a demo that failed.
func parseServers(list string) ([]string, error) {
	if strings.TrimSpace(list) == "" {
		return nil, errors.New("no servers: name them with --servers host:port,… or in ZK_SERVERS")
	}
	servers := strings.Split(list, ",")
	for i, server := range servers {
		servers[i] = strings.TrimSpace(server)
		if servers[i] != "" && !strings.Contains(servers[i], ":") {
			continue // on ZooKeeper's own port
		}
		host, port, err := net.SplitHostPort(servers[i])
		if err != nil || host == "" {
			return nil, fmt.Errorf("server %q of %q is not host:port", server, list)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("server %q of %q has no valid port", server, list)
		}
	}
	return servers, nil
}
