// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongArgumentsEndWithStatus2AndUsage(t *testing.T) {
	t.Setenv("ZK_SERVERS", "")
	for _, test := range []struct {
		args string
		says string
	}{
		{"", "no command"},
		{"dmeo", `unknown command "dmeo"`},
		{"version now", `version takes no arguments, not ["now"]`},
		{"help me", `help takes no arguments, not ["me"]`},
		{"demo", "no servers: name them with --servers host:port,… or in ZK_SERVERS"},
		{"demo --servers ,", `server "" of "," is not host:port`},
		{"demo --servers zk1:2181,", `server "" of "zk1:2181," is not host:port`},
		{"demo --servers :2181", `server ":2181" of ":2181" is not host:port`},
		{"demo --servers zk1:http", `server "zk1:http" of "zk1:http" has no valid port`},
		{"demo --servers zk1:0", `server "zk1:0" of "zk1:0" has no valid port`},
		{"demo --servers ::1", `server "::1" of "::1" is not host:port`},
		{"demo --servers zk1:2181 --timeout 999ms", "--timeout 999ms is below the minimum of 1s"},
		{"demo --servers zk1:2181 --timeout soon", `invalid value "soon" for flag -timeout`},
		{"demo --servers zk1:2181 zk2:2181", `takes flags only, not ["zk2:2181"]`},
		{"demo --fast", "flag provided but not defined: -fast"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, statusUsage, run(t.Context(), strings.Fields(test.args), &stdout, &stderr))
			require.Empty(t, stdout.String())
			complaint, rest, _ := strings.Cut(stderr.String(), "\n")
			require.True(t, strings.HasPrefix(complaint, "lockkeeper: "), complaint)
			require.Contains(t, complaint, test.says)
			require.Equal(t, usage, rest)
		})
	}
}

func TestServersComeFromTheFlagOrElseTheEnvironment(t *testing.T) {
	t.Setenv("ZK_SERVERS", "zk1:2181, zk2,[::1]:2182")
	args, err := parse(nil)
	require.NoError(t, err)
	require.Equal(t, []string{"zk1:2181", "zk2", "[::1]:2182"}, args.servers)

	args, err = parse([]string{"--servers", "zk3:2183"})
	require.NoError(t, err)
	require.Equal(t, []string{"zk3:2183"}, args.servers)
}

func TestHelpIsTheUsageOnStandardOutput(t *testing.T) {
	for _, args := range []string{"help", "--help", "-h", "demo --help"} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, statusOK, run(t.Context(), strings.Fields(args), &stdout, &stderr), args)
		require.Equal(t, usage, stdout.String(), args)
		require.Empty(t, stderr.String(), args)
	}
}

func TestVersionNamesTheBuild(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusOK, run(t.Context(), []string{"version"}, &stdout, &stderr))
	require.Regexp(t, `^lockkeeper .*, go1.*\n$`, stdout.String())
	require.Empty(t, stderr.String())

	require.Regexp(t, `^lockkeeper v1\.2\.3, go1.*, example\.com/zk v1\.0\.4$`, version(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "example.com/zk", Version: "v1.0.4"}},
	}))
	require.Contains(t, version(nil), "unknown version")
}

func TestDemoThatFindsNoServersFailsWithTheReason(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("somebody pressed a key"))
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusFailed, run(ctx, []string{"demo", "--servers", "127.0.0.1:1"}, &stdout, &stderr))
	require.Regexp(t, `\nfailed: candidate a: connect: .*somebody pressed a key.*\n$`, stdout.String())
	require.Empty(t, stderr.String())
}

func TestDemoThatCannotBeShownFails(t *testing.T) {
	var stderr bytes.Buffer
	require.Equal(t, statusFailed, run(t.Context(), []string{"demo", "--servers", "127.0.0.1:1"}, broken{}, &stderr))
	require.Equal(t, "lockkeeper: demo: no paper\n", stderr.String())
}

// broken is a writer that nobody reads.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no paper") }
