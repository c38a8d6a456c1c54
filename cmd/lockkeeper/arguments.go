// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// flagsOf returns an empty flag set for a command. It prints nothing: parse errors are
// returned, and run prints the usage.
func flagsOf(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseFlags parses args and refuses arguments that are not flags. It returns
// flag.ErrHelp if args ask for help.
func parseFlags(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("takes flags only, not %q", flags.Args())
	}
	return nil
}

// demoArguments are the arguments of the demo command.
type demoArguments struct {
	servers []string      // a connect string; empty for servers in this process
	timeout time.Duration // the session timeout to request
}

func parseDemo(args []string) (*demoArguments, error) {
	flags := flagsOf("demo")
	list := flags.String("servers", "", "")
	timeout := flags.Duration("timeout", 4*time.Second, "")
	if err := parseFlags(flags, args); err != nil {
		return nil, err
	}
	if *timeout < time.Second {
		return nil, fmt.Errorf("--timeout %v is below the minimum of %v", *timeout, time.Second)
	}
	named := false
	flags.Visit(func(f *flag.Flag) { named = named || f.Name == "servers" })
	if !named {
		*list = os.Getenv("ZK_SERVERS")
		named = strings.TrimSpace(*list) != ""
	}
	parsed := &demoArguments{timeout: *timeout}
	if !named {
		return parsed, nil
	}
	// Check here, so that a bad list is reported as a usage error and not as a failed demo.
	parsed.servers = []string{*list}
	if err := recipes.CheckServers(parsed.servers); err != nil {
		return nil, err
	}
	return parsed, nil
}

// devArguments are the arguments of the dev command.
type devArguments struct {
	listen  string // host:port of the first server
	servers int
	tick    time.Duration
	ttl     bool          // allow nodes with a time to live
	reap    time.Duration // the interval of deletions of empty containers and expired TTL nodes
	faults  bool          // read commands from standard input even if it is not a terminal
	exposed bool          // allow an address that other machines can reach
}

func parseDev(args []string) (*devArguments, error) {
	parsed := &devArguments{}
	flags := flagsOf("dev")
	flags.StringVar(&parsed.listen, "listen", "127.0.0.1:2181", "")
	flags.IntVar(&parsed.servers, "servers", 1, "")
	flags.DurationVar(&parsed.tick, "tick", 500*time.Millisecond, "")
	flags.BoolVar(&parsed.ttl, "ttl-nodes", false, "")
	flags.DurationVar(&parsed.reap, "reap", time.Minute, "")
	flags.BoolVar(&parsed.faults, "faults", false, "")
	flags.BoolVar(&parsed.exposed, "expose", false, "")
	if err := parseFlags(flags, args); err != nil {
		return nil, err
	}
	// Zero would select zktest's default. zktest checks everything else itself.
	switch {
	case parsed.listen == "":
		return nil, errors.New("--listen is empty")
	case parsed.servers < 1:
		return nil, fmt.Errorf("--servers %d is below the minimum of 1", parsed.servers)
	case parsed.tick <= 0:
		return nil, fmt.Errorf("--tick %v is not positive", parsed.tick)
	case parsed.reap <= 0:
		return nil, fmt.Errorf("--reap %v is not positive", parsed.reap)
	}
	host, _, err := net.SplitHostPort(parsed.listen)
	if err != nil {
		return nil, fmt.Errorf("--listen %q is not host:port", parsed.listen)
	}
	if !parsed.exposed && !isLoopback(host) {
		return nil, fmt.Errorf("--listen %s may be reachable from other machines, and dev accepts every client: add --expose to allow it", parsed.listen)
	}
	return parsed, nil
}

// isLoopback reports whether host is a loopback address or "localhost". It does not
// resolve names.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
