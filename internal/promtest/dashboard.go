// SPDX-License-Identifier: Apache-2.0

package promtest

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// Queries returns the queries of all panels of a dashboard for Grafana, with the values that Grafana would put in place of
// its variables.
func Queries(tb testing.TB, file string) (queries []string) {
	tb.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title, Type string
			Targets     []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		tb.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "10s", "$job", ".*", "$instance", ".*", "$path", ".*")
	for _, panel := range dashboard.Panels {
		if panel.Type != "row" && len(panel.Targets) == 0 {
			tb.Fatalf("panel %q has no query", panel.Title)
		}
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			if strings.Contains(query, "$") {
				tb.Fatalf("panel %q has an unknown variable: %s", panel.Title, query)
			}
			queries = append(queries, query)
		}
	}
	return queries
}

// WithoutData returns the queries that have returned no number within a minute, with the reason for each.
func (s *Server) WithoutData(ctx context.Context, queries []string) map[string]string {
	missing := map[string]string{}
	for _, query := range queries {
		missing[query] = "not asked"
	}
	Holds(func() bool {
		// A query that has returned a number is not asked again: a scrape that fails removes the series for a moment.
		for query := range missing {
			if values, err := s.Query(ctx, query); err != nil {
				missing[query] = err.Error()
			} else if !slices.ContainsFunc(values, func(value string) bool { return value != "NaN" }) {
				missing[query] = "no value but NaN"
			} else {
				delete(missing, query)
			}
		}
		return len(missing) == 0
	})
	return missing
}
