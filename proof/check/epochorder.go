// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// EpochOrder: epochs are claimed as 1, 2, 3 and so on, with rising tokens, while the claimer's node exists, and every
// write in an epoch is in the newest one. Nothing is excused. The numbers restart where the node of the epochs was
// deleted, and continue from a number that an operator wrote into it.
var EpochOrder = register(definition{
	name:    "epoch-order",
	meaning: "epochs are numbered 1, 2, 3, and every write is in the newest one",
	counts:  "claims of an epoch",
	judge:   epochOrder,
	tests:   perEvent(history.Claimed),
})

func epochOrder(t *timeline, found report) {
	ordered, paths := t.state(history.Claimed, history.Wrote), map[string]string{} // by the epochs' nodes
	for _, e := range ordered {
		if e.Kind == history.Claimed {
			paths[e.Node] = e.Path
		}
	}
	ordered = slices.DeleteFunc(ordered, func(e history.Event) bool { return e.Kind == history.Wrote && e.Epoch == 0 })
	for _, n := range t.nodes {
		if queue, ofEpochs := paths[n.created.Node]; ofEpochs && n.deleted.Kind != "" {
			gone := n.deleted
			gone.Path = queue
			ordered = append(ordered, gone)
		}
	}
	sortByZxid(ordered)
	byPath := map[string]*epochs{}
	for _, e := range ordered {
		c := byPath[e.Path]
		if c == nil {
			c = &epochs{}
			byPath[e.Path] = c
		}
		if text := c.violation(e); text != "" {
			found(text, c.newest, e)
		}
		c.apply(e)
	}
}

// epochs is the state of one path's epochs.
type epochs struct {
	newest history.Event // the claim of the newest epoch, no Kind if there is none
	token  history.ID    // the greatest that has claimed one
	reset  bool          // the node was deleted since then
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
