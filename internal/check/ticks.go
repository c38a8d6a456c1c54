// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// ticks checks TickOnce.
func ticks(t *timeline) []Finding {
	var findings []Finding
	stored := slices.DeleteFunc(slices.Clone(t.ticks), func(e history.Event) bool { return e.Kind != history.Stored })
	slices.SortStableFunc(stored, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	byTick, newest := map[string]history.Event{}, map[string]history.Event{}
	for _, e := range stored {
		if last := newest[e.Path]; last.Kind != "" && e.Text <= last.Text {
			findings = append(findings, Finding{TickOnce, "a tick was stored again, or after a later one", []history.Event{last, e}})
		}
		newest[e.Path], byTick[e.Path+" "+e.Text] = e, e
		if n, held := t.holder(e.Token, e.Zxid, e.Path); !held {
			events := []history.Event{e}
			if n != nil {
				events = []history.Event{n.created, n.deleted, e}
			}
			findings = append(findings, Finding{TickOnce, "a tick was stored by a leader whose node did not exist", events})
		}
	}
	ran := map[string]history.Event{}
	for _, e := range t.ticks {
		if e.Kind != history.Ran {
			continue
		}
		tick := e.Path + " " + e.Text
		if before := ran[tick]; before.Kind != "" {
			findings = append(findings, Finding{TickOnce, "a tick was run twice", []history.Event{before, e}})
		}
		ran[tick] = e
		if s := byTick[tick]; s.Kind == "" || s.Token != e.Token || s.At > e.At {
			findings = append(findings, Finding{TickOnce, "a tick was run before its leader had stored it", []history.Event{e}})
		}
	}
	return findings
}
