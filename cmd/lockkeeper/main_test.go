// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsageErrorExitsWithStatus64AndNamesHelp(t *testing.T) {
	t.Setenv(serversVariable, "")
	for _, test := range []struct {
		args string
		want string
	}{
		{"", "no command"},
		{"frobnicate", `unknown command "frobnicate"`},
		{"dme", `unknown command "dme": did you mean "demo"?`},
		{"versio --json", `unknown command "versio": did you mean "version"?`},
		{"--fast", "unknown flag: --fast"},
		{"version now", `version: takes flags only, not ["now"]`},
		{"help me", `help: unknown command "me"`},
		{"demo --servers=", `server "" has no valid host`},
		{"demo --servers ,", `server "" of "," has no valid host`},
		{"demo --servers zk1:2181,", `server "" of "zk1:2181," has no valid host`},
		{"demo --servers :2181", `server ":2181" has no valid host`},
		{"demo --servers zk1:http", `server "zk1:http" has no valid port`},
		{"demo --servers zk1:0", `server "zk1:0" has no valid port`},
		{"demo --servers ::1", `server "::1" is not host:port`},
		{"demo --servers zk1:2181,zk2:2181/app/", `chroot "/app/" of "zk1:2181,zk2:2181/app/"`},
		{"demo --servers zk1:2181/a,zk2:2181/b", `chroot "/a,zk2:2181/b" of "zk1:2181/a,zk2:2181/b" has a comma`},
		{"demo --servers zk1:2181 --timeout 999ms", "--timeout 999ms is below the minimum of 1s"},
		{"demo --servers zk1:2181 --timeout soon", `invalid argument "soon" for "--timeout" flag`},
		{"demo --servers zk1:2181 zk2:2181", `takes flags only, not ["zk2:2181"]`},
		{"demo --fast", "unknown flag: --fast"},
		{"dev 2181", `takes flags only, not ["2181"]`},
		{"dev --listen=", "--listen is empty"},
		{"dev --reap 0s", "--reap 0s is not positive"},
		{"dev --listen 2181", `--listen "2181" is not host:port`},
		{"dev --listen 127.0.0.1:http", `address "127.0.0.1:http" has no valid port`},
		{"dev --listen 127.0.0.1:65536", `address "127.0.0.1:65536" has no valid port`},
		{"dev --listen :2181", "--listen :2181 may be reachable from other machines, and dev accepts every client: add --expose"},
		{"dev --listen 0.0.0.0:2181", "may be reachable from other machines"},
		{"dev --listen [::]:2181", "may be reachable from other machines"},
		{"dev --listen 192.0.2.1:2181", "may be reachable from other machines"},
		{"dev --listen zk1:2181", "may be reachable from other machines"},
		{"dev --servers 0", "--servers 0 is below the minimum of 1"},
		{"dev --listen 127.0.0.1:0 --servers 8", "8 servers: must be 1 to 7"},
		{"dev --tick 0s", "--tick 0s is not positive"},
		{"dev --listen 127.0.0.1:0 --tick 1us", "tick 1µs: must be whole milliseconds"},
		{"dev --persist", "unknown flag: --persist"},
		{"dev --lab --lab-listen 8090", `--lab-listen "8090" is not host:port`},
		{"dev --lab --lab-listen :8090", "--lab-listen :8090 may be reachable from other machines"},
		{"dev --lab --expose --lab-listen 192.0.2.1:8090", "choose a loopback address"},
		{"dev --lab --tick 100ms", "--tick 100ms is too short for --lab: sessions of 8 ticks must last a second"},
	} {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			require.Equal(t, statusUsage, run(t.Context(), strings.Fields(test.args), nil, &stdout, &stderr))
			require.Empty(t, stdout.String())
			complaint, rest, _ := strings.Cut(stderr.String(), "\n")
			require.True(t, strings.HasPrefix(complaint, "lockkeeper: "), complaint)
			require.Contains(t, complaint, test.want)
			require.Regexp(t, `^see 'lockkeeper( [a-z]+)? --help'\n$`, rest)
		})
	}
}

func TestHelpIsPrintedForEachCommand(t *testing.T) {
	for _, c := range newRoot().Commands() {
		for _, args := range [][]string{{"help", c.Name()}, {c.Name(), "--help"}, {c.Name(), "-h"}} {
			var stdout, stderr bytes.Buffer
			require.Equal(t, statusOK, run(t.Context(), args, nil, &stdout, &stderr), args)
			require.Contains(t, stdout.String(), "lockkeeper "+c.Name(), args)
			require.Empty(t, stderr.String(), args)
		}
	}
}

func TestHelpHasExampleForEachCommand(t *testing.T) {
	root := newRoot()
	addCompletion(root)
	for _, c := range append(root.Commands(), root) {
		require.Contains(t, c.Example, "lockkeeper ", c.Name())
	}
}

func TestNearestFlagIsNamedForMisspeltOne(t *testing.T) {
	for args, want := range map[string]string{
		"ls --jsno":          "unknown flag: --jsno: did you mean --json?",
		"run --wiat=3s":      "unknown flag: --wiat: did you mean --wait?",
		"run -lock /a":       "unknown shorthand flag: 'l' in -lock: did you mean --lock?",
		"show /a --server=x": "unknown flag: --server: did you mean --servers?",
		"run --colour":       "unknown flag: --colour\n",
		"run -x":             "unknown shorthand flag: 'x' in -x\n",
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, statusUsage, run(t.Context(), strings.Fields(args), nil, &stdout, &stderr))
		require.Contains(t, stderr.String(), want)
	}
}

func TestHelpListsCommandsAndExitStatuses(t *testing.T) {
	for _, args := range []string{"help", "--help", "-h"} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, statusOK, run(t.Context(), strings.Fields(args), nil, &stdout, &stderr), args)
		require.Contains(t, stdout.String(), statusTable, args)
		for _, c := range commands() {
			require.Contains(t, stdout.String(), c.Name()+" ", args)
			require.Contains(t, stdout.String(), c.Short, args)
		}
		require.Empty(t, stderr.String(), args)
	}
}

func TestCompletionKnowsCommands(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, statusOK, run(t.Context(), []string{"completion", "bash"}, nil, &stdout, &stderr))
	require.Contains(t, stdout.String(), "bash completion")
	stdout.Reset()
	require.Equal(t, statusOK, run(t.Context(), []string{"__complete", "de"}, nil, &stdout, &stderr))
	require.Regexp(t, `(?m)^demo\t`, stdout.String())
	require.Regexp(t, `(?m)^dev\t`, stdout.String())
}

func TestVersionNamesBuildInLines(t *testing.T) {
	var stdout, stderr bytes.Buffer
	for _, args := range []string{"version", "--version"} {
		stdout.Reset()
		require.Equal(t, statusOK, run(t.Context(), []string{args}, nil, &stdout, &stderr))
		require.Regexp(t, `^lockkeeper \S.*\ngo1\S* [a-z0-9]+/[a-z0-9]+\n(\S+ \S+\n)*$`, stdout.String())
		require.Empty(t, stderr.String())
	}

	require.Regexp(t, `^lockkeeper v1\.2\.3\ngo1.*\nexample\.com/zk v1\.0\.4\nexample\.com/flags v2\.0\.0$`, version(&debug.BuildInfo{
		Main: debug.Module{Version: "v1.2.3"},
		Deps: []*debug.Module{{Path: "example.com/zk", Version: "v1.0.4"}, {Path: "example.com/flags", Version: "v2.0.0"}},
	}))
	require.Contains(t, version(nil), "unknown version")
}

// broken is a writer whose writes fail.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("write failed") }
