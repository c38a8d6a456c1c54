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

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// A claim is what all holds have in common: it ends once, for a reason.
type claim struct {
	done   chan struct{}
	giving atomic.Bool // its holder is giving it up

	once  sync.Once
	cause history.Cause // valid after done
}

func newClaim() *claim { return &claim{done: make(chan struct{})} }

// end ends it. What is lost while it is being given up is given up: its holder believes in it no longer.
func (c *claim) end(cause history.Cause) {
	c.once.Do(func() {
		if c.giving.Load() {
			cause = history.GivenUp
		}
		c.cause = cause
		close(c.done)
	})
}

// Grant knows nothing: a library that gives out tokens says so itself.
func (c *claim) Grant() history.Event { return history.Event{} }

// Done is closed when the claim has ended.
func (c *claim) Done() <-chan struct{} { return c.done }

// Cause says why.
func (c *claim) Cause() history.Cause { return c.cause }

// numbers are what makes one failure's text differ from the next: addresses, times.
var numbers = regexp.MustCompile(`[0-9a-f]*[0-9][0-9a-f.:]*`)

// why is an error in words of which there are not many.
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
	text = numbers.ReplaceAllString(text, "#")
	return strings.ToValidUTF8(text[:min(len(text), 100)], "")
}
