// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// A claim is the common part of all holds: it ends once, with a reason.
type claim struct {
	done      chan struct{}
	releasing atomic.Bool // its holder is releasing it

	once  sync.Once
	cause history.Cause // valid after done
}

func newClaim() *claim { return &claim{done: make(chan struct{})} }

// end ends the claim. A claim lost during its release counts as released: its holder no longer relies on it.
func (c *claim) end(cause history.Cause) {
	c.once.Do(func() {
		if c.releasing.Load() {
			cause = history.GivenUp
		}
		c.cause = cause
		close(c.done)
	})
}

// Grant returns an empty event; libraries with tokens override it.
func (c *claim) Grant() history.Event { return history.Event{} }

// Done is closed when the claim has ended.
func (c *claim) Done() <-chan struct{} { return c.done }

// Cause returns the reason.
func (c *claim) Cause() history.Cause { return c.cause }

// numbers matches the parts in which the texts of similar failures differ: addresses and times.
var numbers = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f.:]*`)

// why returns a short text for an error, from a small set.
func why(err error) string {
	switch {
	case errors.Is(err, worker.ErrHeld):
		return worker.ErrHeld.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	}
	text := err.Error()
	if op := new(net.OpError); errors.As(err, &op) {
		text = op.Op + ": " + op.Err.Error()
	}
	text, _, _ = strings.Cut(text, "\n") // of the errors of several servers, the first
	text = numbers.ReplaceAllString(text, "#")
	return strings.ToValidUTF8(text[:min(len(text), 100)], "")
}
