// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals

import (
	"context"
	"errors"
	"regexp"
	"sync"

	"github.com/lockkeeper/lockkeeper/docker/torture"
	"github.com/lockkeeper/lockkeeper/internal/simulation/history"
)

// A claim is what all holds have in common: it ends once, for a reason.
type claim struct {
	done chan struct{}

	once  sync.Once
	cause history.Cause // valid after done
}

func newClaim() *claim { return &claim{done: make(chan struct{})} }

func (c *claim) end(cause history.Cause) {
	c.once.Do(func() {
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
	case errors.Is(err, torture.ErrHeld):
		return torture.ErrHeld.Error()
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded.Error()
	}
	text := numbers.ReplaceAllString(err.Error(), "#")
	return text[:min(len(text), 100)]
}
