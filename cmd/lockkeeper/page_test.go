// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/command-line.md"

func TestExamplesOfPageRun(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(program, filepath.Join(bin, "lockkeeper")))
	ensemble := startServers(t, nil)
	examples := regexp.MustCompile("(?s)```console\n\\$ ([^\n]+)\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(examples), 4)
	runs := func(example string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", example)
		cmd.Env = append(os.Environ(), mainVariable+"=1", serversVariable+"="+connectString(ensemble),
			"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		output, _ := cmd.CombinedOutput() // the output has the status where it matters
		return string(output)
	}
	// A heartbeat between the loss of a hold and its release notices the loss, and the output has more: that is right, too.
	noticed := regexp.MustCompile("the command gets SIGTERM|the command ended with status")
	for _, example := range examples {
		output := runs(example[1])
		for tries := 1; tries < 5 && noticed.MatchString(output); tries++ {
			output = runs(example[1])
		}
		require.Equal(t, withoutDetails(example[2]), withoutDetails(output), example[1])
	}
}

// withoutDetails returns output without what differs from run to run: the names of nodes,
// numbers, durations in tables, log records, and the widths of columns.
func withoutDetails(output string) string {
	for _, r := range []struct{ pattern, replacement string }{
		{`(?m)^time=.*\n`, ""},
		{`[0-9a-z]+-[0-9A-Z]+-lock-`, "NODE-lock-"},
		{`[0-9a-z]+-lock-`, "NODE-lock-"},
		{`NODE-NODE-`, "NODE-"},
		{`\b[\d.]+(µs|ms)\b`, "0ms"},
		{`0x[0-9a-f]+`, "0x0"},
		{`\d+`, "0"},
		{` +`, " "},
	} {
		output = regexp.MustCompile(r.pattern).ReplaceAllString(output, r.replacement)
	}
	return output
}

func TestPagesHaveEveryFlag(t *testing.T) {
	pages := map[string]string{"serve": "../../docs/service-operation.md"}
	for _, c := range commands() {
		text, err := os.ReadFile(cmp.Or(pages[c.Name()], page))
		require.NoError(t, err)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			require.Regexp(t, "--"+f.Name+`([^a-z-]|$)`, string(text), c.Name())
		})
	}
}

func TestPageHasEveryCommandAndExitStatus(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, c := range commands() {
		require.Contains(t, string(text), "`"+c.Name()+"`", "the table of commands")
	}
	for _, found := range regexp.MustCompile(`(?m)^ *(\d+)  `).FindAllStringSubmatch(statusTable, -1) {
		if found[1] != "0" {
			require.Regexp(t, `(?m)^\|[^|]*\b`+found[1]+`\b[^|]*\|`, string(text), "the table of exit statuses")
		}
	}
	for _, name := range strings.Fields("LOCKKEEPER_TOKEN LOCKKEEPER_OWNER LOCKKEEPER_PATH " + serversVariable + " " + urlVariable) {
		require.Contains(t, string(text), "`"+name+"`")
	}
}
