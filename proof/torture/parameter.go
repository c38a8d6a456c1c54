// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A parameter describes one argument of a fault.
type parameter struct {
	name  string
	draw  func(generator) string
	check func(opts *Options, text string) error // the error states what is allowed
}

// oneOf returns a parameter with an enumerable set of values.
func oneOf(name string, draw func(generator) string, all func(*Options) []string) parameter {
	return parameter{name, draw, func(opts *Options, text string) error {
		if allowed := all(opts); !slices.Contains(allowed, text) {
			return fmt.Errorf("allowed are %s", strings.Join(allowed, ", "))
		}
		return nil
	}}
}

// upTo returns the numbers from 1 to n.
func upTo(n int) []string {
	numbers := make([]string, n)
	for i := range numbers {
		numbers[i] = fmt.Sprint(i + 1)
	}
	return numbers
}

var (
	serverParam = oneOf("server", generator.server, func(o *Options) []string {
		return append([]string{"leader", "follower"}, upTo(o.Servers)...)
	})
	followerParam = oneOf("server", func(generator) string { return "follower" }, func(*Options) []string { return []string{"follower"} })

	contenderParam = oneOf("contender", generator.contender, func(o *Options) []string { return upTo(o.Contenders) })

	// A contender that has sessions: with a lock service, each one with an odd number.
	sessionParam = oneOf("contender", func(d generator) string {
		if d.opts.Replicas == 0 {
			return d.contender()
		}
		return fmt.Sprint(1 + 2*d.IntN((d.opts.Contenders+1)/2))
	}, func(o *Options) []string { return upTo(o.Contenders) })

	// A contender, or the one that holds a lock when the fault is injected.
	targetParam = oneOf("contender", generator.contender, func(o *Options) []string { return append([]string{holderTarget}, upTo(o.Contenders)...) })

	// A contender, or the holder that is partitioned when the clock is stepped.
	steppedParam = oneOf("contender", generator.contender, func(o *Options) []string { return append([]string{partitionedTarget}, upTo(o.Contenders)...) })

	directionParam = oneOf("direction", func(d generator) string { return directions[d.IntN(len(directions))] },
		func(*Options) []string { return directions })

	requestParam = oneOf("request", func(d generator) string { return d.opts.requests()[d.IntN(len(d.opts.requests()))] }, (*Options).requests)

	pathParam = oneOf("path", generator.path, (*Options).paths)
	// A path, or the slots, or the parent of their numbers.
	deletedParam = oneOf("path", func(d generator) string {
		if slots := d.opts.slots(); len(slots) > 0 && d.IntN(3) == 0 {
			return slots[d.IntN(len(slots))]
		}
		return d.path()
	}, func(o *Options) []string { return append(o.paths(), o.slots()...) })
	// Servers do not reap the counted path, and deleting it resets its counter.
	containerParam = oneOf("path", func(d generator) string { return d.opts.containers()[d.IntN(3)] }, (*Options).containers)

	// A path, or the path of a contender that holds it when it is revoked.
	revokedParam = oneOf("path", func(d generator) string {
		if d.IntN(2) == 0 {
			return holderTarget
		}
		return d.path()
	}, func(o *Options) []string { return append(o.paths(), holderTarget) })

	replicaParam = oneOf("replica", func(d generator) string { return fmt.Sprint(1 + d.IntN(d.opts.Replicas)) },
		func(o *Options) []string { return upTo(o.Replicas) })

	positionParam = parameter{"position", func(d generator) string { return fmt.Sprint(d.IntN(3)) }, func(_ *Options, text string) error {
		if n, err := strconv.Atoi(text); err != nil || n < 0 {
			return errors.New("allowed are 0, for the first in the queue, and more")
		}
		return nil
	}}
	// Up to T/2, both directions together: a client abandons a server that has not answered for somewhat less.
	delayParam = parameter{"delay", func(d generator) string { return d.fraction(1, 8).String() }, func(_ *Options, text string) error {
		if by, err := time.ParseDuration(text); err != nil || by <= 0 {
			return errors.New("allowed are times above 0s")
		}
		return nil
	}}
	stepParam = parameter{"step", func(d generator) string {
		step := d.between(time.Second, 4*d.opts.Timeout)
		if d.IntN(4) == 0 {
			step = time.Hour
		}
		if d.IntN(2) == 0 {
			step = -step
		}
		return step.Truncate(time.Second).String()
	}, func(_ *Options, text string) error {
		if by, err := time.ParseDuration(text); err != nil || by == 0 || by%time.Second != 0 {
			return errors.New("allowed are whole seconds, forward or back")
		}
		return nil
	}}
)

// requests returns the kinds of requests whose replies can be lost. The harness does not know what a rival sends while it holds.
func (o *Options) requests() []string {
	if o.Rival != nil {
		return []string{"join", "release"}
	}
	return []string{"join", "release", "heartbeat"}
}
