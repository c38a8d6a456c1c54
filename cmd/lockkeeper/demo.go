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

// runDemo is the demo command, up to its status.
func runDemo(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	parsed, err := parseDemo(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return show(usage, stdout, stderr)
	case err != nil:
		return misused(stderr, "demo: %v", err)
	}
	bound := 20*time.Second + 10*parsed.timeout
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("the demo took longer than %v", bound))
	defer cancel()

	ok, err := demo(ctx, parsed, stdout)
	switch {
	case err != nil:
		complain(stderr, "demo: %v", err)
		return statusFailed
	case !ok:
		return statusFailed
	}
	return statusOK
}

// demo plays the story on the servers of the arguments. Its error is one of out's,
// or of servers in this process.
func demo(ctx context.Context, args *demoArguments, out io.Writer) (ok bool, err error) {
	g, err := groundFor(args)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	return play(ctx, g, out)
}

// play plays the story, with the verdict on it as its last line. Its error is one
// of out's.
func play(ctx context.Context, on *ground, out io.Writer) (ok bool, err error) {
	path := "/lockkeeper-demo/" + strings.ToLower(rand.Text()[:10])
	if _, err := fmt.Fprintf(out, "three candidates for %s on %s\n\n", path, on.called); err != nil {
		return false, err
	}
	tl := newTimeline(out)
	s := &story{ground: on, path: path, timeline: tl, led: make(chan campaigned, 2)}
	failure := s.tell(ctx)
	s.end()
	if err := tl.close(); err != nil {
		return false, err
	}
	line := fmt.Sprintf("failed: %v", failure)
	if failure == nil {
		s.account.rows = s.store.written()
		line, ok = verdict(s.account)
	}
	_, err = fmt.Fprintln(out, line)
	return ok, err
}
