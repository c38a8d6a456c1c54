// SPDX-License-Identifier: Apache-2.0

// Package zkserver starts a real ZooKeeper server for the tests of a package, which compare zktest with it:
//
//	func TestMain(m *testing.M) { os.Exit(zkserver.Main(m)) }
//
// It runs the ensemble command of the docker module. It does not import that module, whose dependencies would become
// requirements of this one.
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

// Variable is the name of the environment variable that contains the servers' addresses, host:port,host:port. It is set
// while the tests run.
const Variable = "ZK_SERVERS"

// Main runs the tests with [Variable] set, and returns the exit code for os.Exit. If Variable already names servers, the
// tests use them. Otherwise Main starts one, and stops it after the tests. If no server can be started, Main prints how to
// get one and returns 1 without running a test, since a comparison that did not take place must not look like a success.
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

// Serve starts another server for the caller, whatever [Variable] contains. args are further arguments of the ensemble
// command, -property NAME=VALUE and -counter PATH=N. It returns the server's address, and stop, which stops the server and
// waits for its end.
func Serve(args ...string) (address string, stop func() error, err error) {
	c, err := ensemble(args...)
	if err != nil {
		return "", nil, err
	}
	return c.serve()
}

// ensemble returns the command that starts one server.
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
			return "", fmt.Errorf("find the module root: no go.mod in or above %s", here)
		}
	}
}

// A child is a command that prints ZK_SERVERS=host:port on its own line, serves until its standard input is closed, and
// then ends. The end of this process also closes the input, so that a killed test run leaves no server behind.
type child struct {
	command     []string
	start, stop time.Duration // bounds: until the line is printed, and from closing the input to the end
}

// run runs the tests with a server of the child, and returns the exit code.
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

// fail prints why there is no server and how to get one, and returns the exit code.
func fail(err error) int {
	fmt.Fprintf(os.Stderr, "zkserver: the tests need a ZooKeeper server: %v\n"+
		"Install Java or a container engine, or set %s=host:port to a running server.\n", err, Variable)
	return 1
}

// serve starts the child. It returns the addresses that the child prints, and stop, which stops the child and waits for its
// end. After an error the child has ended.
func (c child) serve() (addresses string, stop func() error, err error) {
	ctx, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, c.command[0], c.command[1:]...)
	out := output{announced: make(chan string, 1)}
	cmd.Env = append(os.Environ(), Variable+"=") // so that the child starts a server in any case
	cmd.Stdout = &out
	cmd.Stderr = os.Stderr
	// A killed go command leaves its own child with the pipe: do not wait until that child closes it.
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
		if errors.Is(closing, os.ErrClosed) { // the child had already ended
			closing = nil
		}
		if err := errors.Join(closing, <-ended); err != nil {
			return fmt.Errorf("run %q: %w", c.command, err)
		}
		return nil
	}
	timer := time.NewTimer(c.start)
	defer timer.Stop()
	select {
	case addresses := <-out.announced:
		return addresses, stop, nil
	case err := <-ended:
		kill()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return "", nil, fmt.Errorf("run %q: ended without a line %s=: %w", c.command, Variable, err)
	case <-timer.C:
		return "", nil, errors.Join(fmt.Errorf("run %q: no line %s= within %v", c.command, Variable, c.start), stop())
	}
}

// output finds the servers' addresses in the output of a child, and writes the rest to standard error.
type output struct {
	announced chan string // receives the addresses, once
	found     bool
	partial   []byte // the beginning of an incomplete line
}

// Write implements io.Writer. It never fails.
func (o *output) Write(p []byte) (int, error) {
	o.partial = append(o.partial, p...)
	for {
		line, rest, complete := bytes.Cut(o.partial, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		o.partial = rest
		addresses, found := strings.CutPrefix(string(line), Variable+"=")
		if !found || o.found {
			fmt.Fprintf(os.Stderr, "%s\n", line)
			continue
		}
		o.found = true
		o.announced <- addresses
	}
}
