// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// epochs is the state of one path's epochs.
type epochs struct {
	newest history.Event // the claim of the newest epoch, no Kind if there is none
	token  history.ID    // the greatest that has claimed one
	reset  bool          // the node was deleted since then
}

// epochOrder checks EpochOrder in the ensemble's commit order.
func (t *timeline) epochOrder() []Finding {
	var findings []Finding
	paths := map[string]string{} // by the epochs' nodes
	var ordered []history.Event
	for _, e := range t.state {
		if e.Kind == history.Claimed {
			paths[e.Node] = e.Path
		}
		if e.Kind == history.Claimed || e.Kind == history.Wrote && e.Epoch != 0 {
			ordered = append(ordered, e)
		}
	}
	for _, n := range t.nodes {
		if queue, ofEpochs := paths[n.created.Node]; ofEpochs && n.deleted.Kind != "" {
			gone := n.deleted
			gone.Path = queue
			ordered = append(ordered, gone)
		}
	}
	slices.SortStableFunc(ordered, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	byPath := map[string]*epochs{}
	for _, e := range ordered {
		c := byPath[e.Path]
		if c == nil {
			c = &epochs{}
			byPath[e.Path] = c
		}
		if text := c.violation(e); text != "" {
			events := []history.Event{e}
			if c.newest.Kind != "" {
				events = []history.Event{c.newest, e}
			}
			findings = append(findings, Finding{EpochOrder, text, events})
		}
		c.apply(e)
	}
	return findings
}

// violation returns what is wrong with the next event, nothing if it is allowed.
func (c *epochs) violation(e history.Event) string {
	switch {
	case e.Kind == history.Wrote && (e.Epoch != c.newest.Epoch || e.Token != c.newest.Token):
		return fmt.Sprintf("written in epoch %d, which was not the newest", e.Epoch)
	case e.Kind != history.Claimed || e.Token == 0:
		return ""
	case e.Epoch != c.newest.Epoch+1:
		return fmt.Sprintf("epoch %d was claimed after epoch %d", e.Epoch, c.newest.Epoch)
	case e.Token == c.token && !c.reset:
		return "one grant claimed two epochs"
	case e.Token < c.token:
		return fmt.Sprintf("an epoch was claimed with a token older than %v, which had claimed one before", c.token)
	}
	return ""
}

// apply updates the state with the next event.
func (c *epochs) apply(e history.Event) {
	switch e.Kind {
	case history.Claimed:
		c.newest, c.token, c.reset = e, max(c.token, e.Token), false
	case history.Deleted:
		c.newest, c.reset = history.Event{}, true
	}
}
