// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
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
	Format int           `json:"format"` // 1
	Epoch  int64         `json:"epoch"`
	Token  fencing.Token `json:"token,omitzero"`
	Owner  string        `json:"owner,omitempty"`
	Node   string        `json:"node,omitempty"`
	Time   time.Time     `json:"time,omitzero"`
}

func (r Record) encode() ([]byte, error) {
	return json.Marshal(content{Format: 1, Epoch: r.Number, Token: r.Token, Owner: r.Owner, Node: r.Node, Time: r.Since})
}

// decode decodes data that encode or an operator has written. stat is nil for a missing node, which holds no epoch.
func decode(data []byte, stat *zk.Stat) (Record, error) {
	if stat == nil {
		return Record{}, nil
	}
	switch {
	case stat.EphemeralOwner != 0:
		return Record{}, errors.New("the node is ephemeral, and the count would end with a session: use a persistent node")
	case len(data) == 0 && stat.Cversion != 0:
		return Record{}, errors.New("the node has or had children, and may be a container that the servers remove: give the epochs a separate path")
	case len(data) == 0:
		return Record{}, nil
	}
	var t content
	if err := json.Unmarshal(data, &t); err != nil || t.Format == 0 {
		return Record{}, fmt.Errorf("the node's data is not an epoch: %.40q", data)
	}
	switch {
	case t.Format != 1:
		return Record{}, fmt.Errorf("the node holds an epoch in format %d: this version supports format 1", t.Format)
	case t.Epoch < 1 || t.Epoch == math.MaxInt64:
		return Record{}, fmt.Errorf("the node holds epoch %d: want 1 to %d", t.Epoch, int64(math.MaxInt64-1))
	}
	return Record{Number: t.Epoch, Token: t.Token, Owner: t.Owner, Node: t.Node, Since: t.Time}, nil
}
