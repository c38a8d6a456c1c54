// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// execStart returns the command of the unit.
func execStart(t *testing.T) []string {
	t.Helper()
	unit := strings.ReplaceAll(string(read(t, "lockkeeper.service")), "\\\n", "")
	found := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	require.NotNil(t, found)
	return strings.Fields(found[1])
}

func TestUnitIsValidAndExposesLittle(t *testing.T) {
	t.Parallel()
	need.Program(t, "systemd-analyze", "install systemd")
	folder := t.TempDir()
	unit := string(read(t, "lockkeeper.service"))
	// It checks that the command exists.
	write(t, folder, "lockkeeper.service", strings.ReplaceAll(unit, execStart(t)[0], binary))
	file := filepath.Join(folder, "lockkeeper.service")
	// A wrong value is a warning, which does not change the exit status.
	warnings, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", file).CombinedOutput()
	require.NoError(t, err, "%s", warnings)
	require.NotContains(t, string(warnings), "lockkeeper.service")
	output(t, nil, "systemd-analyze", "security", "--offline=yes", "--threshold=20", file)
}

func TestUnitStartsTheServiceAndStopsItInTime(t *testing.T) {
	t.Parallel()
	command := execStart(t)
	require.Equal(t, "/usr/local/bin/lockkeeper", command[0])
	cert, key := certificate(t)
	configuration, logs := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{
		"principals.json": principals(), "token-keys": tokenKey(), "zookeeper-auth": "service:password", "cert.pem": cert, "key.pem": key,
	} {
		write(t, configuration, name, content)
	}
	unit := string(read(t, "lockkeeper.service"))
	require.Contains(t, unit, "\nLogsDirectory=lockkeeper\n", "it makes /var/log/lockkeeper, where the unit can write")
	found := regexp.MustCompile(`(?m)^TimeoutStopSec=(.*)$`).FindStringSubmatch(unit)
	require.NotNil(t, found)
	grace, err := time.ParseDuration(found[1])
	require.NoError(t, err)
	args := arguments(t, command[1:], "/etc/lockkeeper", configuration, "/var/log/lockkeeper", logs)
	requireServes(t, args, "/readyz", grace)
	require.Contains(t, string(read(t, filepath.Join(logs, "audit.jsonl"))), `"action":"acquire"`)
}
