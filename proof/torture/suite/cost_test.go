// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// costCrowd adds the columns with 1,000 waiters: that takes minutes.
var costCrowd = flag.Bool("cost.crowd", false, "also count the requests with 1,000 waiters")

// costColumns are the columns of the tables in docs/performance.md, by how many other clients there are.
var costColumns = []int{0, 10, 1000}

// A costTable is the numbers of requests in docs/performance.md or of a measurement, by row and by the
// number of other clients.
type costTable map[string]map[int][]float64

func (c costTable) add(row string, others int, requests ...float64) {
	if c[row] == nil {
		c[row] = make(map[int][]float64)
	}
	c[row][others] = append(c[row][others], requests...)
}

// documentedCosts reads docs/performance.md. In each table the columns after the first one belong in equal
// shares to costColumns. A dash is no number.
func documentedCosts(t *testing.T) costTable {
	t.Helper()
	page, err := os.ReadFile("../../../docs/performance.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## Requests of each recipe\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	table := make(costTable)
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) < 1+len(costColumns) || (len(cells)-1)%len(costColumns) != 0 {
			continue
		}
		name := strings.TrimSpace(cells[0])
		for i, cell := range cells[1:] {
			others := costColumns[i*len(costColumns)/(len(cells)-1)]
			if n, err := strconv.ParseFloat(strings.TrimSpace(cell), 64); err == nil {
				table.add(name, others, n)
			}
		}
	}
	return table
}

// measuredCosts counts the requests of all recipes with so many other clients.
func measuredCosts(s *costs, others int) costTable {
	table := make(costTable)
	add := func(name string, requests ...float64) {
		s.T.Logf("%s: %.2f", name, requests)
		table.add(name, others, requests...)
	}
	for _, q := range queuedRecipes {
		switch {
		case others == 0:
			add(q.name, q.free(s)...)
		case !q.alone:
			add(q.name, q.crowded(s)...)
		}
	}
	for _, f := range []func(*costs) map[string]float64{groupCosts, scheduleCosts, electionCosts, passingCosts, barrierCosts, doubleCosts} {
		for name, n := range f(s) {
			add(name, n)
		}
	}
	return table
}

// tolerance covers, where there are other clients, requests that a measurement counts to the next step,
// and the order in which clients run. A request more or less for each waiter exceeds it, except where
// candidates yield, which takes each of them more than 10.
func tolerance(others int, want float64) float64 {
	if others == 0 {
		return 0
	}
	return max(0.3, want/10)
}

// differences returns the rows that differ, as the table should have them, by name.
func (c costTable) differences(documented costTable, others int) map[string]string {
	rows := make(map[string]string)
	for name, costs := range c {
		want := documented[name][others]
		same := slices.EqualFunc(costs[others], want, func(a, b float64) bool {
			return math.Abs(a-b) <= tolerance(others, b)
		})
		if !same {
			row := name + " with " + strconv.Itoa(others) + ":"
			for _, n := range costs[others] {
				row += " " + show(n)
			}
			rows[name] = row
		}
	}
	for name := range documented {
		if documented[name][others] != nil && c[name][others] == nil {
			rows[name] = name + " with " + strconv.Itoa(others) + ": not measured"
		}
	}
	return rows
}

// docs/performance.md has these numbers. A busy machine can disturb the measurement of a row, which is repeated then: a row is
// wrong if all measurements differ from it.
func TestRecipesCostTheDocumentedRequests(t *testing.T) {
	t.Parallel()
	documented, server := documentedCosts(t), startCounting(t)
	for _, others := range costColumns {
		if others > 10 && !*costCrowd {
			continue
		}
		t.Run(fmt.Sprint(others, " others"), func(t *testing.T) {
			wrong := measuredCosts(newCosts(t, server, others), others).differences(documented, others)
			for range 2 {
				if len(wrong) == 0 {
					return
				}
				again := measuredCosts(newCosts(t, server, others), others).differences(documented, others)
				maps.DeleteFunc(wrong, func(name, _ string) bool { return again[name] == "" })
			}
			rows := slices.Sorted(maps.Values(wrong))
			require.Empty(t, rows, "docs/performance.md differs from what was measured")
		})
	}
}
