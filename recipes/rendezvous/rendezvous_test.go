// SPDX-License-Identifier: Apache-2.0

package rendezvous_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/rendezvous"
)

// named returns n ensembles, each of which is its own name.
func named(n int) map[string]string {
	all := map[string]string{}
	for i := range n {
		name := fmt.Sprintf("ensemble-%d", i)
		all[name] = name
	}
	return all
}

// chosen returns the ensemble of each of n paths.
func chosen(t *testing.T, n int, ensembles map[string]string) map[string]string {
	t.Helper()
	of := map[string]string{}
	for i := range n {
		path := fmt.Sprintf("/locks/%d", i)
		name, err := rendezvous.Choose(path, ensembles)
		require.NoError(t, err)
		of[path] = name
	}
	return of
}

// Other releases and other languages choose alike. In a shell:
// for n in ensemble-0 ensemble-1 ensemble-2; do echo $(printf '%s\0%s' $n PATH | sha256sum) $n; done | sort | tail -n 1
func TestChoiceNeverChanges(t *testing.T) {
	for path, want := range map[string]string{
		"/locks/ledger":        "ensemble-1",
		"/locks/orders/1":      "ensemble-1",
		"/election/controller": "ensemble-0",
		"/locks/müller":        "ensemble-1",
		"/jobs":                "ensemble-0",
		"/locks/a":             "ensemble-2",
	} {
		name, err := rendezvous.Choose(path, named(3))
		require.NoError(t, err)
		require.Equal(t, want, name, path)
	}
}

func TestOnlyPathsOfRemovedEnsembleMove(t *testing.T) {
	const paths = 2000
	before := chosen(t, paths, named(5))
	for removed := range named(5) {
		fewer := named(5)
		delete(fewer, removed)
		takers := map[string]int{}
		for path, name := range chosen(t, paths, fewer) {
			if before[path] == removed {
				takers[name]++
			} else {
				require.Equal(t, before[path], name, path)
			}
		}
		require.Len(t, takers, 4, "all others take paths of %s", removed)
	}
}

func TestAddedEnsembleTakesPathsFromAllOthers(t *testing.T) {
	const paths = 2000
	moved := map[string]int{}
	after := chosen(t, paths, named(5))
	for path, name := range chosen(t, paths, named(4)) {
		if after[path] != name {
			require.Equal(t, "ensemble-4", after[path], path)
			moved[name]++
		}
	}
	require.Len(t, moved, 4)
}

// Of 2,000 paths, 400 belong to each of five on average, with a standard deviation of 18.
func TestPathsAreSpreadEvenly(t *testing.T) {
	counts := map[string]int{}
	for _, name := range chosen(t, 2000, named(5)) {
		counts[name]++
	}
	require.Len(t, counts, 5)
	for name, count := range counts {
		require.InDelta(t, 400, count, 75, name)
	}
}

func TestOrderOfEnsemblesHasNoEffect(t *testing.T) {
	before, others := chosen(t, 100, named(5)), map[string]string{}
	for i := 4; i >= 0; i-- {
		name := fmt.Sprintf("ensemble-%d", i)
		others[name] = name
	}
	for range 20 { // each has another order of iteration
		require.Equal(t, before, chosen(t, 100, maps.Clone(others)))
	}
}

func TestNothingIsChosenFromInvalidArguments(t *testing.T) {
	for _, c := range []struct {
		name, path string
		ensembles  map[string]string
		want       string
	}{
		{"no ensembles", "/locks/a", nil, "rendezvous: choose /locks/a: no ensembles"},
		{"an empty name", "/locks/a", map[string]string{"": "x"}, `rendezvous: choose /locks/a: ensemble "": the name is empty`},
		{"a name with a NUL", "/locks/a", map[string]string{"a\x00b": "x"}, `rendezvous: choose /locks/a: ensemble "a\x00b": the name contains a NUL`},
		{"a relative path", "locks", named(1), `rendezvous: choose: path "locks" is not absolute`},
		{"another spelling of a path", "/locks/a/", named(1), `rendezvous: choose: path "/locks/a/" has an empty segment`},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, err := rendezvous.Choose(c.path, c.ensembles)
			require.EqualError(t, err, c.want)
			require.Empty(t, name)
		})
	}
}
