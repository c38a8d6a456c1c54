// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/record"
)

// ErrNoActivation is returned by Last when no activation has been stored yet.
var ErrNoActivation = errors.New("no activation yet")

// A Record describes the last activation that was stored, and the leader that stored it.
type Record struct {
	Time  time.Time     // of the activation, in UTC
	Token fencing.Token // of the leader's term; 0 if an operator wrote the node
	Owner string        // of the leader: see election.Options.Owner
	Node  string        // the path of the node of the leader's claim, including the namespace
	Since time.Time     // when it was about to be stored, by the clock of the leader's host
}

// same reports whether both are one activation of one term. The token alone does not name the term: nodes of different paths that
// were created in one transaction have the same token.
func (r Record) same(other Record) bool {
	return r.Time.Equal(other.Time) && r.Token == other.Token && r.Node == other.Node
}

// A content is the data of the node.
type content struct {
	Activation time.Time     `json:"activation"`
	Token      fencing.Token `json:"token,omitzero"`
	Owner      string        `json:"owner,omitempty"`
	Node       string        `json:"node,omitempty"`
	Time       time.Time     `json:"time,omitzero"`
}

// stored are the contents that a leader or an operator has written.
var stored = record.Kind[content]{Name: "an activation", Check: func(c content) error {
	if c.Activation.IsZero() {
		return errors.New("it has no time")
	}
	return nil
}}

func (r Record) content() *content {
	return &content{Activation: r.Time, Token: r.Token, Owner: r.Owner, Node: r.Node, Time: r.Since}
}

// record returns the Record that is stored; the zero content holds no activation.
func (c content) record() Record {
	return Record{Time: c.Activation.UTC(), Token: c.Token, Owner: c.Owner, Node: c.Node, Since: c.Time}
}
