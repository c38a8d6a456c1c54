// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// A generator draws the values of a plan.
type generator struct {
	*rand.Rand
	opts *Options
}

func (d generator) between(least, most time.Duration) time.Duration {
	return (least + time.Duration(d.Int64N(int64(most-least)))).Round(time.Millisecond)
}

// fraction draws a duration from a/16 to b/16 of T.
func (d generator) fraction(a, b int) time.Duration {
	return d.between(d.opts.Timeout*time.Duration(a)/16, d.opts.Timeout*time.Duration(b)/16)
}

func (d generator) server() string {
	if d.IntN(3) == 0 {
		return "leader"
	}
	return fmt.Sprint(1 + d.IntN(d.opts.Servers))
}

func (d generator) contender() string { return fmt.Sprint(1 + d.IntN(d.opts.Contenders)) }

func (d generator) path() string { return d.opts.paths()[d.IntN(len(d.opts.paths()))] }

// quiet returns the length of the final period of a run, in which no fault begins and all are healed.
func (o *Options) quiet() time.Duration { return min(o.Duration/4, 3*o.Timeout) }

// maxConcurrent is how many faults may be in progress at the same time.
const maxConcurrent = 3
