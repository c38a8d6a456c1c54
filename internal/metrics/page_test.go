// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const docs = "../../docs/"

// prometheusName returns the name of a metric by Prometheus's conventions, as the page has it.
func prometheusName(m *Metric) string {
	name := "lockkeeper_" + m.Name
	if m.Unit == Seconds {
		name += "_seconds"
	}
	if m.Kind == Counter || m.Kind == ReadCounter {
		name += "_total"
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(docs + name)
	require.NoError(t, err)
	return string(text)
}

func TestPageListsEachMetricWithItsKindAndLabels(t *testing.T) {
	kinds := map[Kind]string{Counter: "counter", ReadCounter: "counter", Histogram: "histogram", Gauge: "gauge"}
	var want []string
	for _, m := range All {
		labels := ""
		for i, l := range m.Labels {
			if i > 0 {
				labels += ", "
			}
			labels += "`" + l + "`"
		}
		want = append(want, strings.Join([]string{prometheusName(m), kinds[m.Kind], labels}, " | "))
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(lockkeeper_\\w+)` \\| (\\w+) \\|([^|]*)\\|").FindAllStringSubmatch(read(t, "observability.md"), -1) {
		listed = append(listed, strings.Join([]string{row[1], row[2], strings.TrimSpace(row[3])}, " | "))
	}
	require.Equal(t, want, listed)
}

func TestPageListsEachAlert(t *testing.T) {
	page := read(t, "observability.md")
	alerts := regexp.MustCompile(`(?m)- alert: (\w+)`).FindAllStringSubmatch(read(t, "observability/alerts.yml"), -1)
	require.NotEmpty(t, alerts)
	tests := read(t, "observability/alerts_test.yml")
	for _, alert := range alerts {
		require.Contains(t, page, "`"+alert[1]+"`")
		require.Contains(t, tests, "alertname: "+alert[1], "a test of the alert")
	}
}

func TestDashboardShowsEachMetricAndAlertsNameNoOther(t *testing.T) {
	known, shown := map[string]bool{}, map[string]bool{}
	for _, m := range All {
		known[prometheusName(m)] = true
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			known[prometheusName(m)+suffix] = m.Kind == Histogram
		}
	}
	name := regexp.MustCompile(`lockkeeper_\w+`)
	for _, file := range []string{"observability/dashboard.json", "observability/alerts.yml", "observability/alerts_test.yml"} {
		for _, found := range name.FindAllString(read(t, file), -1) {
			require.True(t, known[found], "%s names %s", file, found)
			shown[regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(found, "")] = true
		}
	}
	for _, m := range All {
		require.True(t, shown[prometheusName(m)], "%s is on no panel", prometheusName(m))
	}
}
