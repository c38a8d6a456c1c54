// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/child"
	"github.com/lockkeeper/lockkeeper/proof/torture/evidence"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const docs = "../../docs"

func TestMain(m *testing.M) {
	child.Main()
	os.Exit(m.Run())
}

// startSimulated starts servers of zktest.
func startSimulated(ctx context.Context, n int) ([]string, func() error, error) {
	e, err := zktest.Run(ctx, &zktest.Options{Servers: n})
	if err != nil {
		return nil, nil, err
	}
	return e.Addrs(), e.Close, nil
}

// tested returns a bench whose rounds do very little, on zktest.
func tested(t *testing.T) *bench {
	t.Helper()
	b := newBench(t.Context(), t.TempDir(), t.Output())
	b.short, b.only, b.zookeeper = true, []string{ours, bare, zkLock}, startSimulated
	t.Cleanup(func() { require.NoError(t, b.close()) })
	return b
}

func TestCasesRunAndTheirDocumentsHaveValues(t *testing.T) {
	b := tested(t)
	run := []*benchCase{
		uncontended, handOff8, tryLocks, guardedWrites, {
			name: "waiters-10", servers: []int{1},
			round: func(r *round) error { return r.process(processTask{Library: ours, N: 3, Kind: inSessions}) },
		},
	}
	_, err := b.run(run)
	require.NoError(t, err)
	all, err := readDocuments(b.out)
	require.NoError(t, err)
	for _, c := range run {
		require.Contains(t, all, c.name)
		require.NotEmpty(t, all[c.name].Values, c.name)
		require.NotEmpty(t, all[c.name].Trees["internal"], c.name)
	}
	for _, servers := range uncontended.servers {
		v, found := all.median(uncontended.name, servers, ours, "rate/"+bare)
		require.True(t, found)
		require.Positive(t, v)
		v, _ = all.median(uncontended.name, servers, ours, "requests")
		require.Greater(t, v, 1.0, "2, by the count of the server, and heartbeats in either part of the difference")
	}
	v, found := all.median("waiters-10", 1, ours, inSessions+"hand-off bytes")
	require.True(t, found)
	require.Positive(t, v)
	page, err := all.page()
	require.NoError(t, err)
	require.Contains(t, page, "**Short run.**")
}

func TestFailedCaseIsNamedAndTheOthersRun(t *testing.T) {
	b := tested(t)
	broken := errors.New("broken")
	failing := &benchCase{name: "hand-off-8", servers: []int{1}, round: func(*round) error { return broken }}
	succeeded, err := b.run([]*benchCase{failing, {name: "burst", servers: []int{1}, round: func(r *round) error {
		r.add(ours, "claims", 3)
		return nil
	}}})
	require.ErrorIs(t, err, broken)
	require.Len(t, succeeded, 1, "the other one is not judged by the documents of an earlier run")
	require.Equal(t, "burst", succeeded[0].name)
	require.ErrorContains(t, err, "make bench RUN='^hand-off-8$' SHORT=1")
	all, err := readDocuments(b.out)
	require.NoError(t, err)
	require.Contains(t, all["hand-off-8"].Failed, "broken")
	v, found := all.median("burst", 1, ours, "claims")
	require.True(t, found)
	require.Equal(t, 3.0, v)
}

func TestBudgetIsMetByTheMedianAndWhereItSaysSoByEachRound(t *testing.T) {
	d := &document{Case: "hand-off-8"}
	for _, v := range []float64{0.9, 2, 1.1} {
		d.keep(map[valueKey]float64{{1, ours, "rate/" + zkLock}: v, {1, ours, "rate/" + bare}: v})
	}
	found := map[string]string{}
	for _, o := range outcomes(documents{d.Case: d}, []string{d.Case}) {
		if o.servers == 1 {
			found[o.metric] = o.Measured() + " " + o.Verdict()
		}
	}
	require.Equal(t, map[string]string{"rate/" + bare: "1.10 PASS", "rate/" + zkLock: "0.90 short by 0.10"}, found)
}

func TestLossInOneRoundIsOverTheBudget(t *testing.T) {
	for name, metric := range map[string]string{"burst": "other claims lost", "idle-holds": "other claims lost", "run-loops": "loops ended"} {
		d := &document{Case: name}
		for _, v := range []float64{0, 500, 0} {
			d.keep(map[valueKey]float64{{1, ours, metric}: v})
		}
		lost := slices.DeleteFunc(outcomes(documents{name: d}, []string{name}), func(o outcome) bool { return o.metric != metric })
		require.Len(t, lost, 1)
		require.Equal(t, "over by 500", lost[0].Verdict(), name)
	}
}

func TestEachBudgetIsOfACase(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cases {
		require.False(t, names[c.name], "two cases are named %s", c.name)
		names[c.name] = true
		require.NotEmpty(t, c.about, c.name)
	}
	for _, b := range budgets {
		require.True(t, names[b.of], "no case %s", b.of)
	}
}

func TestPerformancePageMatchesItsDocuments(t *testing.T) {
	all, err := readDocuments(filepath.Join(docs, "performance"))
	require.NoError(t, err)
	page, err := all.page()
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	require.NoError(t, err)
	require.Equal(t, string(written), page, "`make performance` generates it")
	pictures, err := all.pictures()
	require.NoError(t, err)
	for name, picture := range pictures {
		written, err := os.ReadFile(filepath.Join(docs, "images", name))
		require.NoError(t, err)
		require.True(t, bytes.Equal(written, picture), "`make performance` draws docs/images/%s", name)
	}
}

// A short run may be of a product that no commit has.
func TestCodeOfMeasurementsIsInTheHistory(t *testing.T) {
	all, err := readDocuments(filepath.Join(docs, "performance"))
	require.NoError(t, err)
	var runs evidence.Runs
	for _, d := range all.cases() {
		require.Empty(t, d.Failed, d.Case)
		if !d.Short {
			runs.Ours = append(runs.Ours, evidence.Run{File: d.Case + ".json", Result: verdict.Result{Trees: d.Trees}})
		}
	}
	if err := runs.Locate(docs); !errors.Is(err, evidence.ErrNoHistory) {
		require.NoError(t, err)
	}
}

func TestNumbersKeepFourDigits(t *testing.T) {
	for v, want := range map[float64]string{123456: "123500", 0.123456: "0.1235", 1.23456: "1.235", 0: "0", 0.00012345: "0.0001235"} {
		text, err := json.Marshal(significant(v))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	require.Equal(t, "1,234,567 12.3 0.05", strings.Join([]string{show(1234567), show(12.34), show(0.05)}, " "))
	require.Equal(t, "5 + 0.20 n", fmt.Sprint(linear{5, 0.2}))
}
