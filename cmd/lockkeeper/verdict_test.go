// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestVerdictIsOKOnlyIfEveryClaimHolds(t *testing.T) {
	lost := fmt.Errorf("hold: %w: %w", recipes.ErrLost, recipes.ErrDeadline)
	released := fmt.Errorf("hold: %w: %w", recipes.ErrLost, recipes.ErrReleased)
	stale := &fencing.StaleError{Token: 12, Newest: 19}
	partitionedAt := time.Now()
	at := func(ms int) time.Time { return partitionedAt.Add(time.Duration(ms) * time.Millisecond) }
	// The measurements of a good run. Each test changes one of them.
	good := func() measurements {
		return measurements{
			terms: []measuredTerm{
				{who: "b", token: 19, began: at(4310), ended: at(5000), err: released},
				{who: "a", token: 12, began: at(-1203), ended: at(2105), err: lost},
			},
			partitioned:   "a",
			partitionedAt: partitionedAt,
			stale:         stale,
			rows:          []row{{1, "a", 12}, {2, "a", 12}, {3, "b", 19}},
		}
	}
	a, b := 1, 0 // indices of their terms

	for _, test := range []struct {
		name   string
		change func(*measurements)
		line   string
	}{
		{
			"good", func(*measurements) {},
			"ok: notified 2205 ms before the next term; tokens rose 12 -> 19; the stale write was rejected",
		},
		{
			"two terms overlap", func(m *measurements) {
				m.terms = append(m.terms, measuredTerm{who: "c", token: 20, began: at(4900), ended: at(6000), err: released})
			},
			"failed: b and c both led for 100 ms",
		},
		{
			"one term within another", func(m *measurements) {
				m.terms = append(m.terms, measuredTerm{who: "c", token: 20, began: at(4400), ended: at(4450), err: released})
			},
			"failed: b and c both led for 50 ms",
		},
		{
			"notified after the next term began", func(m *measurements) { m.terms[a].ended = at(4400) },
			"failed: a was notified 90 ms after b led; a and b both led for 90 ms",
		},
		{
			"notified when the next term began", func(m *measurements) { m.terms[a].ended = at(4310) },
			"failed: a was notified 0 ms after b led; a and b both led for 0 ms",
		},
		{
			"resigned without a loss", func(m *measurements) { m.terms[a].err = released },
			"failed: a was not notified of a loss: its term ended with hold: claim lost: released",
		},
		{
			"lost before the partition", func(m *measurements) { m.terms[a].ended = at(-7) },
			"failed: a lost its term 7 ms before the partition: " + lost.Error(),
		},
		{
			"stale write accepted", func(m *measurements) { m.stale = nil },
			"failed: the stale write with token 12 was accepted",
		},
		{
			"stale write fails for another reason", func(m *measurements) { m.stale = errors.New("disk full") },
			"failed: the stale write was not rejected as stale: disk full",
		},
		{
			"store accepted an older token", func(m *measurements) { m.rows = append(m.rows, row{4, "a", 12}) },
			"failed: the store accepted an older token after a newer one",
		},
		{
			"tokens fall", func(m *measurements) { m.terms[b].token = 11 },
			"failed: tokens did not rise: 12 -> 11",
		},
		{
			"no candidate took over", func(m *measurements) { m.terms = m.terms[a:] },
			"failed: no candidate took over; the terms were a's (token 12)",
		},
		{
			"no candidate led", func(m *measurements) { m.terms = nil },
			"failed: no candidate took over; the terms were none",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			measured := good()
			test.change(&measured)
			line, ok := verdict(measured)
			require.Equal(t, test.line, line)
			require.Equal(t, test.name == "good", ok)
		})
	}
}
