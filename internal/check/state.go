// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// transactions checks what contenders have written to the ensemble itself.
func transactions(s *story) []Finding {
	if len(s.state) == 0 {
		return nil
	}
	return slices.Concat(s.heldState(), s.epochOrder(), s.trueAnswers())
}

// holder is the node that a grant of that token stands on, if it lived when the transaction was carried out.
func (s *story) holder(token, zxid history.ID, line string) (n *node, held bool) {
	// Nodes are in the order of their creation.
	i, _ := slices.BinarySearchFunc(s.nodes, token, func(n *node, token history.ID) int { return cmp.Compare(n.created.Zxid, token) })
	for ; i < len(s.nodes) && s.nodes[i].created.Zxid == token; i++ {
		n = s.nodes[i]
		if isContender(n.created) && path.Dir(n.created.Node) == line {
			return n, n.created.Zxid < zxid && (n.deleted.Kind == "" || n.deleted.Zxid > zxid)
		}
	}
	return nil, false
}

func (s *story) heldState() []Finding {
	var findings []Finding
	for _, e := range s.state {
		if e.Kind != history.Wrote && (e.Kind != history.Claimed || e.Token == 0) {
			continue
		}
		n, held := s.holder(e.Token, e.Zxid, e.Path)
		switch {
		case held:
		case n == nil:
			findings = append(findings, Finding{HeldState, "the ensemble was written to by who held nothing", []history.Event{e}})
		default:
			findings = append(findings, Finding{
				HeldState, "the ensemble was written to by a holder whose node was gone", []history.Event{n.created, n.deleted, e},
			})
		}
	}
	return findings
}

// counts is how far the epochs of one path have come.
type counts struct {
	newest history.Event // the claim of the newest epoch, no Kind if there is none
	token  history.ID    // the largest that has claimed one
	anew   bool          // the node was deleted since then
}

// epochOrder goes through what the ensemble did, in its order.
func (s *story) epochOrder() []Finding {
	var findings []Finding
	paths := map[string]string{} // by the epochs' nodes
	var ordered []history.Event
	for _, e := range s.state {
		if e.Kind == history.Claimed {
			paths[e.Node] = e.Path
		}
		if e.Kind == history.Claimed || e.Kind == history.Wrote && e.Epoch != 0 {
			ordered = append(ordered, e)
		}
	}
	for _, n := range s.nodes {
		if line, epochs := paths[n.created.Node]; epochs && n.deleted.Kind != "" {
			gone := n.deleted
			gone.Path = line
			ordered = append(ordered, gone)
		}
	}
	slices.SortStableFunc(ordered, func(a, b history.Event) int { return cmp.Compare(a.Zxid, b.Zxid) })
	byPath := map[string]*counts{}
	for _, e := range ordered {
		c := byPath[e.Path]
		if c == nil {
			c = &counts{}
			byPath[e.Path] = c
		}
		if text := c.next(e); text != "" {
			events := []history.Event{e}
			if c.newest.Kind != "" {
				events = []history.Event{c.newest, e}
			}
			findings = append(findings, Finding{EpochOrder, text, events})
		}
		c.take(e)
	}
	return findings
}

// next says what is wrong with an event that comes next, nothing if it may.
func (c *counts) next(e history.Event) string {
	switch {
	case e.Kind == history.Wrote && (e.Epoch != c.newest.Epoch || e.Token != c.newest.Token):
		return fmt.Sprintf("written in epoch %d, which was not the newest", e.Epoch)
	case e.Kind != history.Claimed || e.Token == 0:
		return ""
	case e.Epoch != c.newest.Epoch+1:
		return fmt.Sprintf("epoch %d was claimed after epoch %d", e.Epoch, c.newest.Epoch)
	case e.Token == c.token && !c.anew:
		return "one grant has claimed two epochs"
	case e.Token < c.token:
		return fmt.Sprintf("an epoch was claimed with a token that is older than %v, which has claimed one", c.token)
	}
	return ""
}

func (c *counts) take(e history.Event) {
	switch e.Kind {
	case history.Claimed:
		c.newest, c.token, c.anew = e, max(c.token, e.Token), false
	case history.Deleted:
		c.newest, c.anew = history.Event{}, true
	}
}

// A sending is what a contender sent to the ensemble, what it has heard of it, and what the ensemble did.
type sending struct {
	sent, answered history.Event
	landed         []history.Event
}

func (s *story) trueAnswers() []Finding {
	var findings []Finding
	sendings := map[int]*sending{}
	var order []int
	claims := map[history.ID][]history.Event{}
	for _, e := range s.state {
		if e.Kind == history.Claimed {
			claims[e.Token] = append(claims[e.Token], e)
			continue
		}
		if sendings[e.Write] == nil {
			sendings[e.Write] = &sending{}
			order = append(order, e.Write)
		}
		switch w := sendings[e.Write]; e.Kind {
		case history.Sent:
			w.sent = e
		case history.Answered:
			w.answered = e
		default:
			w.landed = append(w.landed, e)
		}
	}
	askings := map[history.ID][]*sending{} // for epochs, by token
	for _, write := range order {
		w := sendings[write]
		text := w.amiss()
		if token := w.sent.Token; w.sent.Text == "epoch" {
			text = w.amissInClaim(claims[token])
			askings[token] = append(askings[token], w)
		}
		if text != "" {
			findings = append(findings, Finding{TrueAnswer, text, append(w.told(), w.landed...)})
		}
	}
	for token, asked := range askings {
		// Once one may have been carried out, what is answered to the others says nothing of it.
		refused := !slices.ContainsFunc(asked, func(w *sending) bool { return w.answered.Cause != history.Refused })
		if refused && len(claims[token]) != 0 {
			findings = append(findings, Finding{TrueAnswer, "answered as refused, and claimed", append(asked[0].told(), claims[token]...)})
		}
	}
	return findings
}

// told is what the contender has told of it.
func (w *sending) told() []history.Event {
	return slices.DeleteFunc([]history.Event{w.sent, w.answered}, func(e history.Event) bool { return e.Kind == "" })
}

// amiss says what is wrong with a transaction that writes state.
func (w *sending) amiss() string {
	registers := map[string]bool{}
	for _, l := range w.landed {
		registers[l.Register] = true
		if l.Zxid != w.landed[0].Zxid {
			return "what was sent once was carried out twice, or in two transactions"
		}
	}
	done := w.answered.Cause == history.Done
	switch {
	case w.sent.Kind == "":
		return "carried out, or answered, and sent by nobody"
	case len(w.landed) != 0 && (len(registers) != w.sent.Parts || len(w.landed) != w.sent.Parts):
		return fmt.Sprintf("%d of %d parts were carried out", len(registers), w.sent.Parts)
	case w.answered.Cause == history.Refused && len(w.landed) != 0:
		return "answered as refused, and carried out"
	case done && len(w.landed) == 0:
		return "answered as done, and not carried out"
	case done && w.landed[0].At > w.answered.At:
		return "answered as done before it was carried out"
	}
	return ""
}

// amissInClaim says what is wrong with the answer to a claim of an epoch.
func (w *sending) amissInClaim(claims []history.Event) string {
	if w.answered.Cause == history.Done &&
		!slices.ContainsFunc(claims, func(c history.Event) bool { return c.Epoch == w.answered.Epoch && c.At <= w.answered.At }) {
		return "answered with an epoch that was not claimed"
	}
	return ""
}
