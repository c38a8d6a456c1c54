// SPDX-License-Identifier: Apache-2.0

package promtrace_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The pages and files for all metric systems are in the repository's docs.
const observability = "../../docs/observability/"

func TestAlertRulesPassTheirTests(t *testing.T) {
	promtool := program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = observability
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}

func TestEachQueryOfTheDashboardReturnsData(t *testing.T) {
	program(t, "prometheus") // first, as a missing program is a reason to skip
	queries := dashboardQueries(t)
	s := startPrometheus(t, startApp(t), observability+"alerts.yml")
	missing := map[string]string{}
	if !holds(func() bool {
		for _, query := range queries {
			if values, err := s.query(t.Context(), query); err != nil {
				missing[query] = err.Error()
			} else if !slices.ContainsFunc(values, isNumber) {
				missing[query] = "no value but NaN"
			} else {
				delete(missing, query)
			}
		}
		return len(missing) == 0
	}) {
		require.Empty(t, missing, "queries without data")
	}

	var alerts []rule
	require.True(t, holds(func() (firing bool) {
		var err error
		alerts, err = s.rules(t.Context())
		require.NoError(t, err)
		for _, alert := range alerts {
			require.NotEqual(t, "err", alert.Health, "%s: %s", alert.Name, alert.LastError)
			firing = firing || alert.Name == "LockkeeperClaimsLost" && alert.State == "firing"
		}
		return firing
	}), "the program loses claims all the time: %v", alerts)
}

func isNumber(value string) bool { return value != "NaN" }

// holds reports whether condition holds within a minute.
func holds(condition func() bool) bool {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(100 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

// dashboardQueries returns the queries of all panels, with the values that Grafana would put in place of its
// variables.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	text, err := os.ReadFile(observability + "dashboard.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	variables := strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$instance", ".*", "$path", ".*")
	for _, panel := range dashboard.Panels {
		if panel.Type == "row" {
			continue
		}
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			require.NotContains(t, query, "$", panel.Title)
			queries = append(queries, query)
		}
	}
	require.Greater(t, len(queries), 20)
	return queries
}
