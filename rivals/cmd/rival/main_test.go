// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFlagThatMakesNoSenseIsRefusedWithWhatIsAllowed(t *testing.T) {
	for _, wrong := range []struct{ args, says string }{
		{"-rivals curator", `rival "curator": allowed are etcd, redsync, rowlock`},
		{"-rivals etcd,", `rival "": allowed are etcd`},
		{"-duration abc", "of each run, 10s to 24h"},
		{"-duration 1s", "duration 1s: allowed are 10s to 24h"},
		{"-faults flood", `fault "flood": allowed are counter, cut-contender`},
		{"-timeout 2500ms", "timeout 2.5s: allowed are whole seconds"},
		{"-timeout 1h", "session timeout 1h0m0s: allowed are 2s to 40s"},
		{"-contenders 17", "17 contenders: allowed are 1 to 16"},
		{"now", "no arguments"},
	} {
		var problems bytes.Buffer
		require.Equal(t, notRun, run(strings.Fields(wrong.args), io.Discard, &problems), wrong.args)
		require.Contains(t, problems.String(), wrong.says)
	}
}
