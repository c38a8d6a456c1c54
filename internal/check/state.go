// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// transactions checks the writes of contenders to the ensemble itself.
func transactions(t *timeline) []Finding {
	if len(t.state) == 0 {
		return nil
	}
	return slices.Concat(t.heldState(), t.epochOrder(), t.trueAnswers())
}

// holder returns the node of the grant with a token, nil if there is none, and reports whether it existed when a transaction
// was committed.
func (t *timeline) holder(token, zxid history.ID, queue string) (n *node, held bool) {
	// Nodes are in the order of their creation.
	i, _ := slices.BinarySearchFunc(t.nodes, token, func(n *node, token history.ID) int { return cmp.Compare(n.created.Zxid, token) })
	for ; i < len(t.nodes) && t.nodes[i].created.Zxid == token; i++ {
		n = t.nodes[i]
		if isContender(n.created) && path.Dir(n.created.Node) == queue {
			return n, n.created.Zxid < zxid && (n.deleted.Kind == "" || n.deleted.Zxid > zxid)
		}
	}
	return nil, false
}

// heldState checks HeldState.
func (t *timeline) heldState() []Finding {
	var findings []Finding
	for _, e := range t.state {
		if e.Kind != history.Wrote && (e.Kind != history.Claimed || e.Token == 0) {
			continue
		}
		n, held := t.holder(e.Token, e.Zxid, e.Path)
		switch {
		case held:
		case n == nil:
			findings = append(findings, Finding{HeldState, "a contender without a grant wrote to the ensemble", []history.Event{e}})
		default:
			findings = append(findings, Finding{
				HeldState, "a holder whose node was gone wrote to the ensemble", []history.Event{n.created, n.deleted, e},
			})
		}
	}
	return findings
}

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

// A submission is a write that a contender sent to the ensemble, its answer, and what the ensemble committed.
type submission struct {
	sent, answered history.Event
	committed      []history.Event
}

// trueAnswers checks TrueAnswer.
func (t *timeline) trueAnswers() []Finding {
	var findings []Finding
	submissions := map[int]*submission{}
	var order []int
	claims := map[history.ID][]history.Event{}
	for _, e := range t.state {
		if e.Kind == history.Claimed {
			claims[e.Token] = append(claims[e.Token], e)
			continue
		}
		if submissions[e.Write] == nil {
			submissions[e.Write] = &submission{}
			order = append(order, e.Write)
		}
		switch w := submissions[e.Write]; e.Kind {
		case history.Sent:
			w.sent = e
		case history.Answered:
			w.answered = e
		default:
			w.committed = append(w.committed, e)
		}
	}
	epochClaims := map[history.ID][]*submission{} // by token
	for _, write := range order {
		w := submissions[write]
		text := w.problem()
		if token := w.sent.Token; w.sent.Text == "epoch" {
			text = w.problemOfClaim(claims[token])
			epochClaims[token] = append(epochClaims[token], w)
		}
		if text != "" {
			findings = append(findings, Finding{TrueAnswer, text, append(w.observed(), w.committed...)})
		}
	}
	for token, attempts := range epochClaims {
		// If one attempt may have been carried out, the answers to the others state nothing about it.
		refused := !slices.ContainsFunc(attempts, func(w *submission) bool { return w.answered.Cause != history.Refused })
		if refused && len(claims[token]) != 0 {
			findings = append(findings, Finding{TrueAnswer, "answered as refused, but claimed", append(attempts[0].observed(), claims[token]...)})
		}
	}
	return findings
}

// observed returns the contender's events of the submission.
func (w *submission) observed() []history.Event {
	return slices.DeleteFunc([]history.Event{w.sent, w.answered}, func(e history.Event) bool { return e.Kind == "" })
}

// problem returns what is wrong with a transaction that writes state, nothing if it is correct.
func (w *submission) problem() string {
	registers := map[string]bool{}
	for _, l := range w.committed {
		registers[l.Register] = true
		if l.Zxid != w.committed[0].Zxid {
			return "one write was carried out twice, or in two transactions"
		}
	}
	done := w.answered.Cause == history.Done
	switch {
	case w.sent.Kind == "":
		return "carried out or answered, but no contender sent it"
	case len(w.committed) != 0 && (len(registers) != w.sent.Parts || len(w.committed) != w.sent.Parts):
		return fmt.Sprintf("%d of %d parts were carried out", len(registers), w.sent.Parts)
	case w.answered.Cause == history.Refused && len(w.committed) != 0:
		return "answered as refused, but carried out"
	case done && len(w.committed) == 0:
		return "answered as done, but not carried out"
	case done && w.committed[0].At > w.answered.At:
		return "answered as done before it was carried out"
	}
	return ""
}

// problemOfClaim returns what is wrong with the answer to a claim of an epoch, nothing if it is correct.
func (w *submission) problemOfClaim(claims []history.Event) string {
	if w.answered.Cause == history.Done &&
		!slices.ContainsFunc(claims, func(c history.Event) bool { return c.Epoch == w.answered.Epoch && c.At <= w.answered.At }) {
		return "answered with an epoch that was not claimed"
	}
	return ""
}
