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

// flagsOf are a command's flags. What is wrong with them the error says, and run
// shows the usage.
func flagsOf(command string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseFlags refuses arguments that are no flags. Its error is flag.ErrHelp for
// those who ask for help.
func parseFlags(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("takes flags only, not %q", flags.Args())
	}
	return nil
}

// The arguments of a demo.
type demoArguments struct {
	servers []string      // a connect string; none for servers in this process
	timeout time.Duration // session timeout to ask for
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
	// Refused here, it is a mistake in the arguments and no demo that failed.
	parsed.servers = []string{*list}
	if err := recipes.CheckServers(parsed.servers); err != nil {
		return nil, err
	}
	return parsed, nil
}

// The arguments of dev.
type devArguments struct {
	listen  string // host:port of the first server
	servers int
	tick    time.Duration
	ttl     bool          // nodes may have a time to live
	reap    time.Duration // between deletions of empty containers and outdated nodes
	faults  bool          // commands are taken from whatever standard input is
	exposed bool          // the address may be one that other machines reach
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
	// Zero would be zktest's default; what else is wrong it says itself.
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
		return nil, fmt.Errorf("--listen %s is not of this machine alone, and dev lets everybody in: say --expose to have it so", parsed.listen)
	}
	return parsed, nil
}

// isLoopback says whether only this machine reaches the host, as far as that can be
// told without asking anybody.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}
