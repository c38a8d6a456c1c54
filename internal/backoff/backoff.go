// SPDX-License-Identifier: Apache-2.0

// Package backoff computes how long to wait after work that has failed.
package backoff

import (
	"math/rand/v2"
	"time"
)

// A Backoff is the state of one sequence of failures. A copy is independent.
type Backoff struct {
	Min, Max time.Duration
	next     time.Duration // the next wait, before the random part is subtracted
}

// New returns a Backoff that waits shortest after the first failure, and longest at most.
func New(shortest, longest time.Duration) Backoff {
	return Backoff{Min: shortest, Max: longest, next: shortest}
}

// Failed returns how long to wait after work that ran for the given time and failed.
func (b *Backoff) Failed(ran time.Duration) time.Duration {
	if ran >= b.Max {
		b.Succeeded()
	}
	d := b.next
	b.next = b.Max
	if d < b.Max/2 {
		b.next = 2 * d
	}
	return d - rand.N(d/2+1)
}

// Succeeded resets the wait to its minimum.
func (b *Backoff) Succeeded() { b.next = b.Min }
