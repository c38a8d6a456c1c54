// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// completions returns what a shell offers after args, of which the last is being typed, and what it does with it.
func completions(t *testing.T, ensemble *zktest.Ensemble, args ...string) (offered []string, directive cobra.ShellCompDirective) {
	t.Helper()
	status, stdout, stderr := runInProcess(t, ensemble, append([]string{cobra.ShellCompNoDescRequestCmd}, args...)...)
	require.Equal(t, statusOK, status, stderr)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	_, err := fmt.Sscanf(lines[len(lines)-1], ":%d", &directive)
	require.NoError(t, err, stdout)
	return lines[:len(lines)-1], directive
}

const nodesOnly = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace

func TestPathsOfNodesAreCompleted(t *testing.T) {
	ensemble := startServers(t, nil)
	client := clientOf(t, ensemble, "a")
	take(t, client, "/locks/ledger")
	take(t, client, "/locks/ledger/part")
	for _, path := range []string{"/locks/orders", "/locks/two words", "/other"} {
		require.NoError(t, ensemble.Create(path, nil))
	}
	for _, test := range []struct{ args, want string }{
		{"ls ", "/locks /other"},
		{"ls /", "/locks /other"},
		{"ls /lo", "/locks"},
		{"doctor /locks/", "/locks/ledger /locks/orders"},
		{"show --json /locks/l", "/locks/ledger"},
		{"watch /locks/ledger/", "/locks/ledger/part"},
		{"release /locks/ledger/part/", ""}, // contenders
		{"resize /locks/o", "/locks/orders"},
		{"run --lock /locks/", "/locks/ledger /locks/orders"},
		{"run --lock=/locks/o", "/locks/orders"},
		{"run --elect /o", "/other"},
		{"show --namespace /locks /l", "/ledger"},
		{"ls --namespace /l", "/locks"},
		{"ls /missing/", ""},
	} {
		offered, directive := completions(t, ensemble, strings.Split(test.args, " ")...)
		require.Equal(t, test.want, strings.Join(offered, " "), test.args)
		require.Equal(t, nodesOnly, directive, test.args)
	}
	offered, directive := completions(t, ensemble, "resize", "/locks/orders", "")
	require.Empty(t, offered)
	require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive, "a limit is no path")
}

// The script of Bash evaluates the line, with what it completed before.
func TestNamesThatShellsInterpretAreNotCompleted(t *testing.T) {
	ensemble := startServers(t, nil)
	for _, name := range []string{
		"`x`a", "$(x)", "a$b", "a;b", "a|b", "a&b", "a>b", "a<b", "a'b", `a"b`, `a\b`, "a*", "a?", "a[b]", "a{b}", "~a", "!a", "#a", "a^b", "(a)",
		"two words", "plain", "Größe-1.2_x:y@z%+,=",
	} {
		require.NoError(t, ensemble.Create("/locks/"+name, nil))
	}
	offered, _ := completions(t, ensemble, "ls", "/locks/")
	require.Equal(t, []string{"/locks/Größe-1.2_x:y@z%+,=", "/locks/plain"}, offered)
}

func TestKeysOfServiceAreCompleted(t *testing.T) {
	ensemble := startServers(t, nil)
	locks := startService(t)
	service := serviceClient(t, locks)
	hold, err := service.Lock(t.Context(), "team", "orders")
	require.NoError(t, err)
	interpreted, err := service.Lock(t.Context(), "team", "$(orders)")
	require.NoError(t, err)
	for typed, want := range map[string]string{"team/": "team/orders", "team/or": "team/orders", "team/x": "", "te": ""} {
		offered, directive := completions(t, ensemble, "show", "--url", locks, typed)
		require.Equal(t, want, strings.Join(offered, " "), typed)
		require.Equal(t, cobra.ShellCompDirectiveNoFileComp, directive, typed)
	}
	require.NoError(t, hold.Unlock(t.Context()))
	require.NoError(t, interpreted.Unlock(t.Context()))
}

func TestFilesAreCompletedOnlyWhereOneIsExpected(t *testing.T) {
	ensemble := startServers(t, nil)
	for _, c := range newRoot().Commands() {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" {
				return
			}
			value, _ := pflag.UnquoteUsage(f)
			_, directive := completions(t, ensemble, c.Name(), "--"+f.Name, "")
			files := directive&cobra.ShellCompDirectiveNoFileComp == 0
			require.Equal(t, value == "file", files, "%s --%s", c.Name(), f.Name)
		})
		_, directive := completions(t, ensemble, c.Name(), "")
		files := directive&cobra.ShellCompDirectiveNoFileComp == 0
		require.Equal(t, c.Name() == "run" || c.Name() == "guard", files, "%s runs a program, which is a file", c.Name())
	}
}

func TestCompletionShowsWhyItHasNothingToOffer(t *testing.T) {
	for servers, want := range map[string]string{"": "--servers is missing", "127.0.0.1:1": "127.0.0.1:1: connect: connection refused"} {
		t.Setenv(serversVariable, servers)
		var stdout, stderr bytes.Buffer
		require.Equal(t, statusOK, run(t.Context(), []string{cobra.ShellCompNoDescRequestCmd, "ls", "/"}, nil, &stdout, &stderr))
		require.Contains(t, stdout.String(), "_activeHelp_ lockkeeper: ")
		require.Contains(t, stdout.String(), want)
		require.Contains(t, stdout.String(), fmt.Sprintf("\n:%d\n", nodesOnly))
	}
}
