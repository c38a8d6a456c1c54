// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/promtest"
)

// Prometheus reads its files at the paths at which compose.yaml mounts them.
func TestPrometheusAcceptsItsConfigurationAndAlerts(t *testing.T) {
	t.Parallel()
	promtest.Program(t, "promtool")
	_, own, found := strings.Cut(string(read(t, "compose.yaml")), "\n  prometheus:\n")
	require.True(t, found)
	root, files := t.TempDir(), 0
	for row := range strings.Lines(own) {
		parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(row), "- "), ":")
		if len(parts) != 3 || parts[2] != "ro" {
			continue
		}
		files++
		require.NoError(t, os.MkdirAll(filepath.Join(root, filepath.Dir(parts[1])), 0o700))
		write(t, root, parts[1], string(read(t, parts[0])))
	}
	require.Equal(t, 3, files)
	report := output(t, nil, "promtool", "check", "config", filepath.Join(root, "etc/prometheus/prometheus.yml"))
	require.Contains(t, report, "2 rule files found")
	output(t, nil, "promtool", "test", "rules", "prometheus/alerts_test.yml")
}
