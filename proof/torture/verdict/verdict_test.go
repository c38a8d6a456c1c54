// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/check"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

func TestHistoryThatIsNotWellFormedShowsNothingAboutAPromise(t *testing.T) {
	r := good(t)
	granted := slices.IndexFunc(r.History, func(e history.Event) bool { return e.Kind == history.Granted })
	r.History = slices.Insert(r.History, granted, r.History[granted])
	Rejudge(r)
	require.Equal(t, Broken, r.Verdict)
	require.Equal(t, check.WellFormed, r.Findings[0].Rule)
	require.Len(t, r.Findings, len(check.History(r.History)), "each once")
	require.NotEmpty(t, r.Promises)
	for _, p := range r.Promises {
		require.Equal(t, Unknown, p.Verdict, p.Rule)
	}
}
