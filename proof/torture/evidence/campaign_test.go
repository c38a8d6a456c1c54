// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

func TestEachCampaignContinuesTheDocumentWithNewSeeds(t *testing.T) {
	dir := t.TempDir()
	c, err := ReadCampaign(dir)
	require.NoError(t, err)
	require.Equal(t, firstSeed, c.NextSeed())
	code := c.CodeOf(map[string]string{"lock": "a"})
	c.Parts = append(c.Parts, Part{Code: code, Seed: firstSeed, Seeds: 3000, Plans: 800, Lasted: history.Instant(time.Hour), Faults: 10, Grants: 20})
	require.Equal(t, firstSeed+3000, c.NextSeed(), "a part that stopped early may have used any of its seeds")
	c.Parts = append(c.Parts, Part{Code: code, Seed: firstSeed + 3000, On: "torture of 3 servers, ZooKeeper 3.8.0", Faults: 3, Grants: 4, Findings: 1})
	require.NoError(t, c.Write(dir))

	again, err := ReadCampaign(dir)
	require.NoError(t, err)
	require.Equal(t, c, again)
	require.Equal(t, firstSeed+3001, again.NextSeed())
	require.Equal(t, code, again.CodeOf(map[string]string{"lock": "a"}))
	require.NotEqual(t, code, again.CodeOf(map[string]string{"lock": "b"}))
}

func TestPartsAreSummedByWhatRan(t *testing.T) {
	c := Campaign{Parts: []Part{
		{Plans: 10, Lasted: 1, Faults: 2, Grants: 3},
		{On: "a", Lasted: 4, Faults: 5, Grants: 6, Findings: 7, Note: "mended"},
		{Plans: 10, Lasted: 1, Faults: 2, Grants: 3},
		{On: "a", Unsound: true, Lasted: 100},
	}}
	require.Equal(t, []Sum{
		{On: "simulation", Parts: 2, Plans: 20, Lasted: 2, Faults: 4, Grants: 6},
		{On: "a", Parts: 1, Lasted: 4, Faults: 5, Grants: 6, Findings: 7, Notes: []string{"mended"}},
		{On: "unsound: the servers or the harness failed", Parts: 1, Lasted: 100},
	}, c.Sums())
}

func TestCampaignWithoutTheTreesOfItsCodeIsRejected(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, CampaignFile)
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(t, os.WriteFile(name, []byte(`{"parts":[{"code":"code 1"}]}`), 0o600))
	_, err := ReadCampaign(dir)
	require.ErrorContains(t, err, `the code "code 1", whose trees are missing`)
}

func TestCampaignOfACodeThatNoCommitHasIsRejected(t *testing.T) {
	r := &Runs{codes: (&Campaign{Codes: map[string]map[string]string{"code 1": {"lock": "0000000"}}}).codes()}
	err := r.Locate(".")
	if err == ErrNoHistory { //nolint:errorlint // as returned
		t.Skip(err)
	}
	require.ErrorContains(t, err, "campaign/campaign.json, code 1: no commit of the history has")
}
