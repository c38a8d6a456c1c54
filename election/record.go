// SPDX-License-Identifier: Apache-2.0

package election

import (
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/record"
)

// They are appended to the election's path to name the nodes with the value, a request to hand over, and a sign of liveness.
const (
	valueSuffix    = "-value"
	requestSuffix  = "-handover"
	livenessSuffix = "-priority"
)

// A proclamation is the data of the node with the value. It belongs to one term: readers ignore
// another term's.
type proclamation struct {
	Token    fencing.Token `json:"token"`
	Value    string        `json:"value"`
	Draining bool          `json:"draining,omitempty"`
}

var proclamations = record.Kind[proclamation]{Name: "the value of an election"}

// A request is the data of the node that names the candidate which is to lead next. The names of
// nodes do not recur, so that a request whose target has left has no effect on any later candidate.
type request struct {
	Token  fencing.Token `json:"token"`  // of the term that is handed over
	Target string        `json:"target"` // name of the candidate's node
	Owner  string        `json:"owner"`  // of the candidate, for people
}

var requests = record.Kind[request]{Name: "a hand-over"}

// A sign shows to the candidate that could lead that one behind it lives: its node alone does not
// show that, as it stays until the session of a dead candidate expires.
type sign struct {
	First fencing.Token `json:"first"` // of the candidate that could lead
	Node  string        `json:"node"`  // of the one that lives
}

var signs = record.Kind[sign]{Name: "a sign of a candidate that lives"}
