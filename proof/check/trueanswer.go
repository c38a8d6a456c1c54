// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// TrueAnswer: a write answered as done was carried out before, one answered as refused never is, and every other is
// carried out once and as a whole, or not at all.
var TrueAnswer = register(definition{
	name:    "true-answer",
	meaning: "the answer to a write to ZooKeeper is true",
	counts:  "answers of the ensemble to writes",
	judge:   trueAnswers,
	tests:   perEvent(history.Answered),
})

func trueAnswers(t *timeline, found report) {
	submissions := map[int]*submission{}
	var order []int
	claims, proclaimed := byToken(t.of(history.Claimed)), byToken(t.of(history.Proclaimed))
	for _, e := range t.state(history.Sent, history.Answered, history.Wrote) {
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
		switch token := w.sent.Token; w.sent.Text {
		case "epoch":
			text = w.problemOfClaim(claims[token])
			epochClaims[token] = append(epochClaims[token], w)
		case "proclaim", "drain":
			text = w.problemOfValue(proclaimed[token])
		}
		if text != "" {
			found(text, append([]history.Event{w.sent, w.answered}, w.committed...)...)
		}
	}
	for token, attempts := range epochClaims {
		// If one attempt may have been carried out, the answers to the others state nothing about it.
		refused := !slices.ContainsFunc(attempts, func(w *submission) bool { return w.answered.Cause != history.Refused })
		if refused && len(claims[token]) != 0 {
			found("answered as refused, but claimed", append([]history.Event{attempts[0].sent, attempts[0].answered}, claims[token]...)...)
		}
	}
}

// byToken groups events by their tokens.
func byToken(events []history.Event) map[history.ID][]history.Event {
	of := map[history.ID][]history.Event{}
	for _, e := range events {
		of[e.Token] = append(of[e.Token], e)
	}
	return of
}

// A submission is a write that a contender sent to the ensemble, its answer, and what the ensemble committed.
type submission struct {
	sent, answered history.Event
	committed      []history.Event
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

// problemOfValue returns what is wrong with the answer to a leader that publishes a value or that it drains, nothing if it
// is correct. The client sends such a transaction again if the answer is lost, so that it can be carried out twice.
func (w *submission) problemOfValue(proclaimed []history.Event) string {
	i := slices.IndexFunc(proclaimed, func(p history.Event) bool {
		return w.sent.Text == "drain" && p.Text == draining || w.sent.Text == "proclaim" && p.Write == w.sent.Write
	})
	switch {
	case w.answered.Cause == history.Refused && i >= 0:
		return "answered as refused, but published"
	case w.answered.Cause == history.Done && (i < 0 || proclaimed[i].At > w.answered.At):
		return "answered as done before it was published"
	}
	return ""
}
