// SPDX-License-Identifier: Apache-2.0

package election

import (
	"math/rand/v2"
	"time"
)

// A backoff computes how long Run waits after work has failed.
type backoff struct {
	min, max time.Duration
	next     time.Duration // the next wait, before the random part is subtracted
}

func newBackoff(shortest, longest time.Duration) backoff {
	return backoff{min: shortest, max: longest, next: shortest}
}

// failed returns how long to wait after work that ran for the given time and failed.
func (b *backoff) failed(ran time.Duration) time.Duration {
	if ran >= b.max {
		b.succeeded()
	}
	d := b.next
	b.next = b.max
	if d < b.max/2 {
		b.next = 2 * d
	}
	return d - rand.N(d/2+1)
}

// succeeded resets the wait to its minimum.
func (b *backoff) succeeded() { b.next = b.min }
