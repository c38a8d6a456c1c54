// SPDX-License-Identifier: Apache-2.0

// Package zkserver gives the tests of a package a real ZooKeeper server, to compare zktest with:
//
//	func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }
//
// The server comes from the ensemble command of the docker module, which is run, not imported: what it needs stays out
// of the requirements of this module.
package zkserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Variable names the environment variable that holds the servers' addresses, host:port,host:port. It is set while the
// tests run.
const Variable = "ZK_SERVERS"

// Main runs the tests with [Variable] set, and returns the exit code for os.Exit. Servers that are named there already
// are used; else one is started, and stopped after the tests. When none can be had, Main says how to get one and
// returns 1 without running a test: a comparison that did not take place must not look like one that held.
func Main(m interface{ Run() int }) int {
	if os.Getenv(Variable) != "" {
		return m.Run()
	}
	c, err := ensemble()
	if err != nil {
		return fail(err)
	}
	return run(m, c)
}

// Serve starts a server of the caller's own, whatever [Variable] names: args are further ones of the ensemble command,
// -property NAME=VALUE and -counter PATH=N. It returns the server's address, and stop, which waits for its end.
func Serve(args ...string) (address string, stop func() error, err error) {
	c, err := ensemble(args...)
	if err != nil {
		return "", nil, err
	}
	return c.serve()
}

// ensemble is the command that starts one server.
func ensemble(args ...string) (child, error) {
	root, err := moduleRoot()
	if err != nil {
		return child{}, err
	}
	command := []string{"go", "run", "-C", filepath.Join(root, "docker"), "./cmd/ensemble", "-n", "1"}
	return child{
		command: append(command, args...),
		start:   5 * time.Minute, // the go command may have to fetch and compile the docker module first
		stop:    time.Minute,
	}, nil
}

// moduleRoot returns the nearest directory with a go.mod, from the working directory upwards.
func moduleRoot() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod above %s", here)
		}
	}
}

// A child is a command that prints ZK_SERVERS=host:port on a line of its own, serves until its standard input is
// closed, and then ends. The input is closed by our death too, so that no killed test run leaves a server behind.
type child struct {
	command     []string
	start, stop time.Duration // bounds: until the line is there, and from the closed input to the end
}

func run(m interface{ Run() int }, c child) (code int) {
	addresses, stop, err := c.serve()
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err := stop(); err != nil {
			code = max(code, fail(err))
		}
	}()
	if err := os.Setenv(Variable, addresses); err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "zkserver: these tests need a ZooKeeper server: %v\n"+
		"Install Java or a container engine, or set %s=host:port to a server that is there.\n", err, Variable)
	return 1
}

// serve starts the child and returns the addresses that it names, and stop, which waits for its end. After an error the
// child has ended.
func (c child) serve() (addresses string, stop func() error, err error) {
	ctx, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	out := output{announced: make(chan string, 1)}
	cmd.Env = append(os.Environ(), Variable+"=") // it starts one, whatever there is
	cmd.Stdout = &out
	cmd.Stderr = os.Stderr
	// The go command that is killed leaves its own child with our pipe: do not wait for that one to close it.
	cmd.WaitDelay = time.Second
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		kill()
		return "", nil, fmt.Errorf("run %q: %w", c.command, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	stop = func() error {
		defer kill()
		defer time.AfterFunc(c.stop, kill).Stop()
		closing := input.Close()
		if errors.Is(closing, os.ErrClosed) { // it had ended by itself
			closing = nil
		}
		if err := errors.Join(closing, <-ended); err != nil {
			return fmt.Errorf("run %q: %w", c.command, err)
		}
		return nil
	}
	late := time.NewTimer(c.start)
	defer late.Stop()
	select {
	case addresses := <-out.announced:
		return addresses, stop, nil
	case err := <-ended:
		kill()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return "", nil, fmt.Errorf("run %q: ended without naming a server: %w", c.command, err)
	case <-late.C:
		return "", nil, errors.Join(fmt.Errorf("run %q: no %s= line within %v", c.command, Variable, c.start), stop())
	}
}

// output takes what a child prints, finds the servers' addresses in it, and passes the rest on to standard error.
type output struct {
	announced chan string // gets the addresses, once
	found     bool
	partial   []byte // the beginning of a line that has not ended yet
}

func (o *output) Write(p []byte) (int, error) {
	o.partial = append(o.partial, p...)
	for {
		line, rest, whole := bytes.Cut(o.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		o.partial = rest
		addresses, named := strings.CutPrefix(string(line), Variable+"=")
		if !named || o.found {
			fmt.Fprintf(os.Stderr, "%s\n", line)
			continue
		}
		o.found = true
		o.announced <- addresses
	}
}
