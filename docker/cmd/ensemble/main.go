// SPDX-License-Identifier: Apache-2.0

// Ensemble starts ZooKeeper servers for a command or for interactive use, and removes
// them afterwards.
//
//	ensemble [-n 3] [-tick 2s] [-property NAME=VALUE]… [-config KEY=VALUE]… [-file NAME=PATH]… [-counter PATH=N]… [-dir DIR] [-backend docker|java] -- COMMAND [ARG…]
//	ensemble [-n 3] [-tick 2s]
//	ensemble -image [-release NAME]
//
// With a command, it runs the command with ZK_SERVERS=host:port,… in its environment,
// forwards signals to it and exits with its status. Without one it prints that line
// and runs until it is interrupted or its standard input is closed. It uses servers
// that ZK_SERVERS already names as they are.
//
// With -image it prints the name of the image that servers run on here, pulling or
// building it when it is missing. With -release it builds one that has the ZooKeeper of
// another release of Debian: trixie has 3.9. ZK_TEST_IMAGE selects it.
//
// `go run -C DIR` runs programs in DIR: name the command's own folder with -dir.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/docker/internal/image"
)

func main() {
	var (
		servers = flag.Int("n", 1, "number of servers: 1, 3 or 5")
		tick    = flag.Duration("tick", 0, "ZooKeeper's tick (default 200ms)")
		dir     = flag.String("dir", "", "folder in which the command runs (default the current one)")
		backend = flag.String("backend", "", "docker or java (default: what is there)")
		image   = flag.Bool("image", false, "print the image to run on, building it when it is missing")
		release = flag.String("release", "", "with -image: build one with the ZooKeeper of this release of Debian, such as trixie")
	)
	opts := &docker.Options{Properties: map[string]string{}, Files: map[string][]byte{}, Counters: map[string]int32{}, Log: progress}
	describe(opts)
	flag.CommandLine.Init("ensemble", flag.ContinueOnError)
	flag.CommandLine.SetOutput(io.Discard) // errors are reported as all others are
	switch err := flag.CommandLine.Parse(os.Args[1:]); {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print("usage: ensemble [flags] [-- command [arg…]]\n\nFlags:\n")
		flag.CommandLine.SetOutput(os.Stdout)
		flag.PrintDefaults()
		return
	case err != nil:
		progress("%v (-h lists the flags)", err)
		os.Exit(2)
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // it greets every engine with ten lines
	var status int
	var err error
	if *image {
		err = printImage(*release)
	} else {
		opts.Servers, opts.Tick, opts.Backend = *servers, *tick, *backend
		status, err = run(opts, *dir, flag.Args())
	}
	if err != nil {
		progress("%v", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

// describe defines the flags that describe the servers.
func describe(opts *docker.Options) {
	flag.Func("property", "a Java system property of the servers, NAME=VALUE; may be repeated", func(text string) error {
		name, value, found := strings.Cut(text, "=")
		if !found {
			return errors.New("want NAME=VALUE")
		}
		opts.Properties[name] = value
		return nil
	})
	flag.Func("config", "a line of the servers' zoo.cfg, KEY=VALUE; may be repeated", func(text string) error {
		opts.Config = append(opts.Config, text)
		return nil
	})
	flag.Func("file", "a file of the servers, NAME=PATH, whose folder {files} stands for in properties, lines and files; may be repeated", func(text string) error {
		name, path, _ := strings.Cut(text, "=")
		content, err := os.ReadFile(path)
		opts.Files[name] = content
		return err
	})
	flag.Func("counter", "a node that exists at the start, and the number of its next sequential child, PATH=N; may be repeated", func(text string) error {
		path, number, _ := strings.Cut(text, "=")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return fmt.Errorf("want PATH=N: %w", err)
		}
		opts.Counters[path] = int32(n)
		return nil
	})
}

func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "ensemble: "+format+"\n", args...) }

// printImage prints the name of the image that servers run on, or of one that it builds with
// the ZooKeeper of release.
func printImage(release string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	name, err := imageOf(ctx, release)
	if err != nil {
		return err
	}
	_, err = fmt.Println(name)
	return err
}

func imageOf(ctx context.Context, release string) (string, error) {
	if release == "" {
		name, missing := image.Name(ctx)
		if missing == nil || os.Getenv("ZK_TEST_IMAGE") != "" {
			return name, missing
		}
		progress("%v", missing)
	}
	progress("building an image from Debian's packages")
	return image.Build(ctx, release, os.Stderr)
}

// run returns the command's status; an error is a failure of the ensemble.
func run(opts *docker.Options, dir string, command []string) (status int, err error) {
	// Received from before the start to after the removal, so that no signal ends
	// this process with servers left behind.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// Nor does a write to a pipe whose reader has ended. To ignore the signal would make the command ignore it too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	e, early, err := start(opts, signals)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	variable := "ZK_SERVERS=" + strings.Join(e.Addrs(), ",")
	switch {
	case early != nil:
		return statusOf(early), nil
	case len(command) > 0:
		return runCommand(command, dir, variable, signals)
	}
	if _, err := fmt.Println(variable); err != nil {
		return 1, err
	}
	closed := make(chan struct{})
	go func() { // nothing interrupts a read of standard input; it ends with the process
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(closed)
	}()
	select {
	case <-signals:
	case <-closed:
	}
	return 0, nil
}

// start gives up at the first signal, and returns it.
func start(opts *docker.Options, signals <-chan os.Signal) (*docker.Ensemble, os.Signal, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	started := make(chan struct{})
	var e *docker.Ensemble
	var err error
	go func() {
		defer close(started)
		e, err = docker.Run(ctx, opts)
	}()
	var early os.Signal
	select {
	case <-started:
	case early = <-signals:
		cancel(fmt.Errorf("interrupted: %v", early))
		<-started
	}
	return e, early, err
}

func runCommand(command []string, dir, variable string, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), variable)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			// A terminal has already interrupted the whole group, and a second
			// interrupt means "immediately" to many programs.
			if s == os.Interrupt && isTerminal(os.Stdin) {
				continue
			}
			if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
				progress("forwarding %v: %v", s, err)
			}
		case err := <-ended:
			var exit *exec.ExitError
			if err == nil || errors.As(err, &exit) {
				return exitStatus(cmd.ProcessState), nil
			}
			return 1, err
		}
	}
}

// isTerminal reports whether a file is a terminal, as opposed to the null device, the
// other usual character device to read from.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

// exitStatus returns a command's status as a shell does: 128 plus the signal's number
// for a killed command.
func exitStatus(state *os.ProcessState) int {
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return statusOf(w.Signal())
	}
	return state.ExitCode()
}

func statusOf(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}
