// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// TestSessionOfServicePageRuns runs what docs/service.md shows first, against `lockkeeper serve --dev`.
func TestSessionOfServicePageRuns(t *testing.T) {
	t.Parallel()
	need.Program(t, "curl", "install it")
	text, err := os.ReadFile("../../docs/service.md")
	require.NoError(t, err)
	_, session, found := strings.Cut(string(text), "```console\n")
	require.True(t, found)
	session, _, _ = strings.Cut(session, "```")
	p := newCommand(t, "serve", "--dev", "--listen", "127.0.0.1:0")
	p.start()
	p.awaitOutput("export LOCKKEEPER_URL=")
	url, _, _ := strings.Cut(strings.TrimPrefix(p.stdout.String(), "export LOCKKEEPER_URL="), "\n")

	var script, want strings.Builder
	for row := range strings.Lines(strings.ReplaceAll(session, "http://127.0.0.1:8080", url)) {
		if command, ok := strings.CutPrefix(row, "$ "); ok {
			script.WriteString(command)
		} else {
			want.WriteString(row)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script.String())
	cmd.Dir = t.TempDir()
	got, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", got)
	require.Equal(t, withoutValues(want.String()), withoutValues(string(got)))

	grants := regexp.MustCompile(`"lockToken":"([^"]+)","fencingToken":"(\d+)"`).FindAllStringSubmatch(string(got), -1)
	require.Len(t, grants, 3)
	require.Equal(t, grants[0], grants[1], "a renewal preserves the tokens")
	require.Equal(t, grants[0], grants[2], "a repeated acquire gets the same grant")
}

// withoutValues returns answers without what differs from run to run.
func withoutValues(answers string) string {
	answers = regexp.MustCompile(`(Token":")[^"]+"`).ReplaceAllString(answers, `$1…"`)
	return regexp.MustCompile(`((valid|retryAfter)Millis|expiresAt)":\d+`).ReplaceAllString(answers, `$1":0`)
}
