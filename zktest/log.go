// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// A log holds the entries that the leader has committed and some server has not applied
// yet. It is guarded by the ensemble's mu.
type log struct {
	first   int64 // the index of entries[0]
	entries []entry
}

// An entry is one transaction, or one counter that the test has set.
type entry struct {
	txn     tree.Txn
	outcome tree.Outcome
	closes  int64   // the session that it ends, 0 if none
	counter counter // if its path is set, the entry is no transaction
	at      time.Time
}

// A counter sets the counter of sequential names of the node at path: see
// Ensemble.SetCounter.
type counter struct {
	path string
	next int32
}

func (l *log) end() int64 { return l.first + int64(len(l.entries)) }

// has reports whether the log contains all entries from index next on.
func (l *log) has(next int64) bool { return next >= l.first && next <= l.end() }
