// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// runDemo executes the demo command and returns its exit status.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	parsed, err := parseDemo(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printText(usage, stdout, stderr)
	case err != nil:
		return usageError(stderr, "demo: %v", err)
	}
	bound := 20*time.Second + 10*parsed.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("the demo took longer than %v", bound))
	defer cancel()

	ok, err := demo(ctx, parsed, stdout)
	switch {
	case err != nil:
		logError(stderr, "demo: %v", err)
		return statusFailed
	case !ok:
		return statusFailed
	}
	return statusOK
}

// demo runs the scenario on the servers of the arguments. Its error is that of a write to
// out, or of the servers in this process.
func demo(ctx context.Context, args *demoArguments, out io.Writer) (ok bool, err error) {
	target, err := targetFor(args)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, target.close()) }()
	return play(ctx, target, out)
}

// play runs the scenario, and prints the verdict as the last line. Its error is that of a
// write to out.
func play(ctx context.Context, on *target, out io.Writer) (ok bool, err error) {
	path := "/lockkeeper-demo/" + strings.ToLower(rand.Text()[:10])
	if _, err := fmt.Fprintf(out, "three candidates for %s on %s\n\n", path, on.name); err != nil {
		return false, err
	}
	tl := newTimeline(out)
	s := &scenario{target: on, path: path, timeline: tl, led: make(chan campaignResult, 2)}
	failure := s.run(ctx)
	s.close()
	if err := tl.close(); err != nil {
		return false, err
	}
	line := fmt.Sprintf("failed: %v", failure)
	if failure == nil {
		s.measurements.rows = s.store.written()
		line, ok = verdict(s.measurements)
	}
	_, err = fmt.Fprintln(out, line)
	return ok, err
}
