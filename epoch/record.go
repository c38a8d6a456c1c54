// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"fmt"
	"math"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Record describes the newest epoch and its claimant.
type Record struct {
	Number int64         // of the epoch, 0 if none has been claimed
	Token  fencing.Token // of the term that claimed it, 0 if an operator wrote the node
	Owner  string        // Options.Owner of the claimant
	Node   string        // the path of the node of its claim, including the namespace
	Since  time.Time     // when it was claimed, by the clock of the claimant's host
}

// held reports whether the epoch belongs to the claim. The token alone is not enough: nodes of different paths that were
// created in one transaction have the same token.
func (r Record) held(c *recipes.Claim) bool { return r.Token == c.Token() && r.Node == c.Path() }

// same reports whether both are one epoch.
func (r Record) same(other Record) bool {
	return r.Number == other.Number && r.Token == other.Token && r.Node == other.Node
}

// later reports whether the epoch came after other. Numbers restart if the node was deleted, and an epoch that an operator
// wrote has no token.
func (r Record) later(other Record) bool { return r.Token > other.Token || r.Number > other.Number }

// byOperator reports whether an operator, and no term, has written the epoch.
func (r Record) byOperator() bool { return r.Number != 0 && r.Token == 0 }

// describe returns the epoch and its claimant, for an error.
func (r Record) describe() string {
	if r.byOperator() {
		return fmt.Sprintf("epoch %d was written by an operator", r.Number)
	}
	return fmt.Sprintf("epoch %d belongs to %q with token %v", r.Number, r.Owner, r.Token)
}

// A content is the data of an epoch's node.
type content struct {
	Epoch int64         `json:"epoch"`
	Token fencing.Token `json:"token,omitzero"`
	Owner string        `json:"owner,omitempty"`
	Node  string        `json:"node,omitempty"`
	Time  time.Time     `json:"time,omitzero"`
}

// stored are the contents that a claim or an operator has written.
var stored = record.Kind[content]{Name: "an epoch", Check: func(c content) error {
	if c.Epoch < 1 || c.Epoch == math.MaxInt64 {
		return fmt.Errorf("epoch %d: want 1 to %d", c.Epoch, int64(math.MaxInt64-1))
	}
	return nil
}}

func (r Record) content() *content {
	return &content{Epoch: r.Number, Token: r.Token, Owner: r.Owner, Node: r.Node, Time: r.Since}
}

// record returns the Record that is stored; the zero content holds no epoch.
func (c content) record() Record {
	return Record{Number: c.Epoch, Token: c.Token, Owner: c.Owner, Node: c.Node, Since: c.Time}
}
