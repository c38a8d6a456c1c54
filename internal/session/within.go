// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/background"
)

// within calls f on a goroutine that blocking counts, and returns soon after ctx ends even if f
// ignores ctx: with an error that names f. drop is then called with a value that comes later; it
// may be nil.
func within[V any](ctx context.Context, blocking *background.Group, name string, f func() (V, error), drop func(V)) (V, error) {
	type result struct {
		value V
		err   error
	}
	results := make(chan result)
	late := make(chan struct{})
	blocking.Run(func() {
		value, err := f()
		select {
		case results <- result{value, err}:
		case <-late:
			if err == nil && drop != nil {
				drop(value)
			}
		}
	})
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
	}
	// A function that observes ctx is about to return, with a better error than ctx's.
	timer := time.NewTimer(10 * time.Millisecond)
	defer timer.Stop()
	select {
	case r := <-results:
		return r.value, r.err
	case <-timer.C:
		close(late)
		var none V
		return none, fmt.Errorf("%s of the options ignores its context: %w", name, ctx.Err())
	}
}
