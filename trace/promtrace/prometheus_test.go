// SPDX-License-Identifier: Apache-2.0

package promtrace_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/promtest"
)

// The pages and files for all metric systems are in the repository's docs.
const observability = "../../docs/observability/"

func TestAlertRulesPassTheirTests(t *testing.T) {
	promtool := promtest.Program(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...)
		cmd.Dir = observability
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "promtool %v: %s", args, out)
	}
}

func TestEachQueryOfTheDashboardReturnsData(t *testing.T) {
	promtest.Program(t, "prometheus") // first, as a missing program is a reason to skip
	queries := promtest.Queries(t, observability+"dashboard.json")
	require.Greater(t, len(queries), 20)
	s := promtest.Start(t, startApp(t), observability+"alerts.yml")
	require.Empty(t, s.WithoutData(t.Context(), queries), "queries without data")

	var alerts []promtest.Rule
	require.True(t, promtest.Holds(func() (firing bool) {
		var err error
		alerts, err = s.Rules(t.Context())
		require.NoError(t, err)
		for _, alert := range alerts {
			require.NotEqual(t, "err", alert.Health, "%s: %s", alert.Name, alert.LastError)
			firing = firing || alert.Name == "LockkeeperClaimsLost" && alert.State == "firing"
		}
		return firing
	}), "the program loses claims all the time: %v", alerts)
}
