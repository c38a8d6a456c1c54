// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// trees reads the checkout once: the processes of all runs of a program are built from it.
var trees = sync.OnceValues(verdict.Trees)

// newResult returns the document of a run that begins now.
func newResult(opts *Options) *verdict.Result {
	r := &verdict.Result{
		Schema: verdict.Schema, Contender: opts.name(), Token: "czxid", Started: time.Now().UTC().Truncate(time.Second),
		Go: runtime.Version(), Commit: verdict.Commit(), Seed: opts.Seed, Servers: opts.Servers, Contenders: opts.Contenders, Replicas: opts.Replicas,
		Mutant: mutantName(opts.Mutant), Clients: opts.Clients, Waiters: opts.Waiters, Holds: opts.Holds, Timeout: history.Instant(opts.Timeout), Tick: history.Instant(opts.tick()),
		Faults: map[string]verdict.FaultCount{}, Findings: []verdict.Finding{}, Problems: []string{}, Acquired: map[string]history.Instant{},
	}
	r.Trees, _ = trees() // Run logs the error; a document without them is rejected as evidence
	if opts.Recipes {
		r.Recipes = verdict.Recipes()
	}
	if rival := opts.Rival; rival != nil {
		r.Contender, r.Token, r.Without = rival.Name, cmp.Or(rival.Token, verdict.NoToken), rival.Without
		r.NotifiedBy, r.Limits = rival.NotifiedBy, rival.Limits
	}
	return r
}

// mutantName returns the base name of a patch file, without its extension.
func mutantName(patch string) string {
	if patch == "" {
		return ""
	}
	return strings.TrimSuffix(filepath.Base(patch), ".patch")
}

// name returns the name of the contenders.
func (o *Options) name() string {
	if o.Name != "" {
		return o.Name
	}
	return strings.Join(o.Contender, " ")
}
