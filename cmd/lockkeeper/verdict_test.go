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

func TestVerdictIsOKOnlyIfEverythingPromisedWasMeasured(t *testing.T) {
	lost := fmt.Errorf("hold: %w: %w", recipes.ErrLost, recipes.ErrDeadline)
	released := fmt.Errorf("hold: %w: %w", recipes.ErrLost, recipes.ErrReleased)
	stale := &fencing.StaleError{Token: 12, Newest: 19}
	cutAt := time.Now()
	at := func(ms int) time.Time { return cutAt.Add(time.Duration(ms) * time.Millisecond) }
	// A good run; each test spoils it.
	good := func() account {
		return account{
			reigns: []reign{
				{who: "b", token: 19, began: at(4310), ended: at(5000), err: released},
				{who: "a", token: 12, began: at(-1203), ended: at(2105), err: lost},
			},
			cutOff: "a",
			cutAt:  cutAt,
			late:   stale,
			rows:   []row{{1, "a", 12}, {2, "a", 12}, {3, "b", 19}},
		}
	}
	a, b := 1, 0 // indices of their terms

	for _, test := range []struct {
		name  string
		spoil func(*account)
		line  string
	}{
		{
			"good", func(*account) {},
			"ok: told 2205 ms before another held; tokens rose 12 -> 19; the late write was refused",
		},
		{
			"two hold at once", func(g *account) {
				g.reigns = append(g.reigns, reign{who: "c", token: 20, began: at(4900), ended: at(6000), err: released})
			},
			"failed: b and c both held for 100 ms",
		},
		{
			"one holds within another's term", func(g *account) {
				g.reigns = append(g.reigns, reign{who: "c", token: 20, began: at(4400), ended: at(4450), err: released})
			},
			"failed: b and c both held for 50 ms",
		},
		{
			"told after another held", func(g *account) { g.reigns[a].ended = at(4400) },
			"failed: a was told 90 ms after b held; a and b both held for 90 ms",
		},
		{
			"told at the same instant", func(g *account) { g.reigns[a].ended = at(4310) },
			"failed: a was told 0 ms after b held; a and b both held for 0 ms",
		},
		{
			"stepped down instead of being told", func(g *account) { g.reigns[a].err = released },
			"failed: a was not told of a loss: its term ended with hold: claim lost: released",
		},
		{
			"lost without a cut", func(g *account) { g.reigns[a].ended = at(-7) },
			"failed: a lost its term 7 ms before it was cut off: " + lost.Error(),
		},
		{
			"late write admitted", func(g *account) { g.late = nil },
			"failed: the late write with token 12 was admitted",
		},
		{
			"late write fails for another reason", func(g *account) { g.late = errors.New("disk full") },
			"failed: the late write was not refused as stale: disk full",
		},
		{
			"store took an older token", func(g *account) { g.rows = append(g.rows, row{4, "a", 12}) },
			"failed: the store took an older token after a newer one",
		},
		{
			"tokens fall", func(g *account) { g.reigns[b].token = 11 },
			"failed: tokens did not rise: 12 -> 11",
		},
		{
			"nobody took over", func(g *account) { g.reigns = g.reigns[a:] },
			"failed: nobody took over; the terms were a's (token 12)",
		},
		{
			"nobody led", func(g *account) { g.reigns = nil },
			"failed: nobody took over; the terms were none",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			account := good()
			test.spoil(&account)
			line, ok := verdict(account)
			require.Equal(t, test.line, line)
			require.Equal(t, test.name == "good", ok)
		})
	}
}
