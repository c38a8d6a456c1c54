// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// The kinds of entries.
const (
	Acquired      = "acquired"
	Revoked       = "revoked"
	ForceReleased = "force-released"
)

// An Entry is one thing that happened to a lock.
type Entry struct {
	Time   time.Time     `json:"t"` // by the clock of the replica
	Action string        `json:"a"`
	Token  fencing.Token `json:"n"` // of the holder
	Owner  string        `json:"o,omitempty"`
	By     string        `json:"b,omitempty"` // of a forced release: the principal
	Reason string        `json:"r,omitempty"`
}

// place is a lock.
type place struct {
	Namespace string `json:"s"`
	Key       string `json:"k"`
}

// record is an entry in a slot.
type record struct {
	place
	Entry
}

// same reports whether two records are of one event, which more than one replica can have seen.
func (r *record) same(other *record) bool {
	return r.place == other.place && r.Token == other.Token && r.Action == other.Action
}

// newestFirst orders records by their tokens, which rise with each grant, and what happened to a grant after it.
func newestFirst(a, b record) int {
	return cmp.Or(cmp.Compare(b.Token, a.Token), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key), cmp.Compare(b.Action, a.Action))
}

// merge returns the records that a slot keeps of all: the newest of each lock, up to kept, and no more bytes than fit. If there
// are too many, the oldest of the namespace that takes most of the slot goes first: one tenant must not push out another's.
func merge(all []record, kept, fit int) []record {
	all = slices.Clone(all)
	slices.SortStableFunc(all, newestFirst)
	all = slices.CompactFunc(all, func(a, b record) bool { return a.same(&b) })
	perLock := map[place]int{}
	all = slices.DeleteFunc(all, func(r record) bool {
		perLock[r.place]++
		return perLock[r.place] > kept
	})
	total, sizes, perNamespace := 0, make([]int, len(all)), map[string]int{}
	for i, r := range all {
		sizes[i] = sizeOf(r)
		total += sizes[i]
		perNamespace[r.Namespace] += sizes[i]
	}
	for total > fit {
		largest := ""
		for namespace, size := range perNamespace {
			if size > perNamespace[largest] || size == perNamespace[largest] && namespace > largest {
				largest = namespace
			}
		}
		last := len(all) - 1
		for all[last].Namespace != largest {
			last--
		}
		total -= sizes[last]
		perNamespace[largest] -= sizes[last]
		all, sizes = slices.Delete(all, last, last+1), slices.Delete(sizes, last, last+1)
	}
	return all
}

// sizeOf returns the bytes of a record in a slot.
func sizeOf(r record) int {
	encoded, err := json.Marshal(r)
	if err != nil {
		return 1 << 20 // never: its fields are text. It would not fit
	}
	return len(encoded) + len(",")
}
