// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

func TestPlanThatOnceFailedPasses(t *testing.T) {
	names, err := filepath.Glob("../../testdata/histories/once-failed/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			file, err := os.Open(name)
			require.NoError(t, err)
			events, err := history.Read(file)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			require.NotEmpty(t, check.History(events), "the checker rejects the history of the failed run")

			p, err := ParsePlan(events[0].Text)
			require.NoError(t, err)
			for range repeats(ifRace(2, 20)) {
				runs.plans.Add(1)
				runAndCheck(t, name, repeatFlags(p), p.Run)
			}
		})
	}
}
