// SPDX-License-Identifier: Apache-2.0

package flags_test

import (
	"bytes"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/flags"
)

func TestMistakeIsNamedWithAdvice(t *testing.T) {
	for args, want := range map[string]string{
		"-y":   "flag provided but not defined: -y (-h lists the flags)",
		"-n=x": `invalid value "x" for flag -n: parse error (-h lists the flags)`,
		"now":  `unexpected argument "now": only flags are allowed (-h lists the flags)`,
		"-n=3": "",
		"":     `unexpected argument "": only flags are allowed (-h lists the flags)`,
	} {
		var out bytes.Buffer
		set := flag.NewFlagSet("program", flag.ContinueOnError)
		n := set.Int("n", 1, "number of runs")
		err := flags.Parse(set, []string{args}, &out, "usage: program [flags]")
		if want == "" {
			require.NoError(t, err)
			require.Equal(t, 3, *n)
		} else {
			require.EqualError(t, err, want)
		}
		require.Empty(t, out.String(), "the caller prints the error, once")
	}
}

func TestHelpListsFlags(t *testing.T) {
	var out bytes.Buffer
	set := flag.NewFlagSet("program", flag.ContinueOnError)
	set.Int("n", 1, "number of runs")
	require.ErrorIs(t, flags.Parse(set, []string{"-h"}, &out, "usage: program [flags]"), flag.ErrHelp)
	require.Equal(t, "usage: program [flags]\n\nFlags:\n  -n int\n    \tnumber of runs (default 1)\n", out.String())
}
