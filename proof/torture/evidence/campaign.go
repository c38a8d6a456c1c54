// SPDX-License-Identifier: Apache-2.0

//go:build unix

package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// CampaignFile is the document of all campaigns, below the folder of documents.
const CampaignFile = "campaign/campaign.json"

// A Campaign is what campaigns have run so far, part by part: each adds to the one document.
type Campaign struct {
	Codes map[string]map[string]string `json:"codes"` // the trees of the product, by the name that the parts give them
	Parts []Part                       `json:"parts"`
}

// A Part is one run of the simulation, or of the torture.
type Part struct {
	Code     string          `json:"code"`
	Started  time.Time       `json:"started"`
	Seed     int             `json:"seed"`               // of the torture, or of the first plan
	Seeds    int             `json:"seeds,omitempty"`    // of the simulation: for how many it was to draw plans
	Plans    int             `json:"plans,omitempty"`    // of the simulation that ran; 0 for the torture
	On       string          `json:"on,omitempty"`       // the servers of the torture, with their version
	Lasted   history.Instant `json:"lasted"`             // simulated or real
	Faults   int             `json:"faults"`             // injected
	Grants   int             `json:"grants"`             // of all recipes
	Findings int             `json:"findings,omitempty"` // about the promises
	Note     string          `json:"note,omitempty"`     // what a finding was, and whether it is mended: a person adds it
	Unsound  bool            `json:"unsound,omitempty"`  // the servers or the harness failed, so that nothing else counts
}

// ReadCampaign reads the document in the folder of documents. It returns an empty one if there is none.
func ReadCampaign(dir string) (*Campaign, error) {
	c := &Campaign{Codes: map[string]map[string]string{}}
	content, err := os.ReadFile(path.Join(dir, CampaignFile))
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(content, c)
	}
	if err != nil {
		return nil, fmt.Errorf("evidence: campaign: %w", err)
	}
	for i, p := range c.Parts {
		if c.Codes[p.Code] == nil {
			return nil, fmt.Errorf("evidence: campaign: part %d names the code %q, whose trees are missing", i, p.Code)
		}
	}
	return c, nil
}

// Write writes the document. An interruption leaves the former one.
func (c *Campaign) Write(dir string) error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("evidence: campaign: %w", err)
	}
	name := path.Join(dir, CampaignFile)
	if err := os.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("evidence: campaign: %w", err)
	}
	if err := errors.Join(os.WriteFile(name+".new", append(content, '\n'), 0o644), os.Rename(name+".new", name)); err != nil {
		return fmt.Errorf("evidence: campaign: %w", err)
	}
	return nil
}

// CodeOf returns the name of a code with these trees, which it adds if it is missing.
func (c *Campaign) CodeOf(trees map[string]string) string {
	for name, other := range c.Codes {
		if maps.Equal(trees, other) {
			return name
		}
	}
	name := fmt.Sprintf("code %d", len(c.Codes)+1)
	c.Codes[name] = trees
	return name
}

// firstSeed is the seed of the first part: make simulate uses the ones below.
const firstSeed = 1_000_001

// NextSeed returns a seed that no part has used.
func (c *Campaign) NextSeed() (next int) {
	next = firstSeed
	for _, p := range c.Parts {
		next = max(next, p.Seed+max(p.Seeds, 1))
	}
	return next
}

// codes returns a run for each code, for Locate.
func (c *Campaign) codes() (runs []Run) {
	for _, name := range slices.Sorted(maps.Keys(c.Codes)) {
		runs = append(runs, Run{Result: verdict.Result{Trees: c.Codes[name]}, File: CampaignFile + ", " + name})
	}
	return runs
}

// A Sum is the sum of the parts of one kind.
type Sum struct {
	On                                     string // what ran
	Parts, Plans, Faults, Grants, Findings int
	Lasted                                 history.Instant
	Notes                                  []string
}

// Sums returns the sum of the simulation, and of the torture by its servers. Parts that are unsound count as such only.
func (c *Campaign) Sums() (sums []Sum) {
	for _, p := range c.Parts {
		on := p.On
		switch {
		case p.Unsound:
			on = "unsound: the servers or the harness failed"
		case p.Plans > 0:
			on = "simulation"
		}
		i := slices.IndexFunc(sums, func(s Sum) bool { return s.On == on })
		if i < 0 {
			i, sums = len(sums), append(sums, Sum{On: on})
		}
		s := &sums[i]
		s.Parts, s.Plans, s.Faults, s.Grants, s.Findings = s.Parts+1, s.Plans+p.Plans, s.Faults+p.Faults, s.Grants+p.Grants, s.Findings+p.Findings
		s.Lasted += p.Lasted
		if p.Note != "" {
			s.Notes = append(s.Notes, p.Note)
		}
	}
	return sums
}
