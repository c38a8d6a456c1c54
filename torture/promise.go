// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"github.com/lockkeeper/lockkeeper/internal/check"
)

// Verdicts on a run and on each promise.
const (
	HeldUp   = "held up"   // tested, without a finding
	Broken   = "broken"    // with a finding
	NotShown = "not shown" // never tested

	// Unsound is the verdict on a run without a finding whose servers or harness failed: it says nothing about the library.
	Unsound = "unsound"
)

// A Promise is a rule of the checker, with how often the run tested it.
type Promise struct {
	Rule    check.Rule `json:"rule"`
	Tested  int        `json:"tested"`
	By      string     `json:"by"` // what Tested counts
	Verdict string     `json:"verdict"`
}
