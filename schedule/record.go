// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
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
	Format     int           `json:"format"` // 1
	Activation time.Time     `json:"activation"`
	Token      fencing.Token `json:"token,omitzero"`
	Owner      string        `json:"owner,omitempty"`
	Node       string        `json:"node,omitempty"`
	Time       time.Time     `json:"time,omitzero"`
}

func (r Record) encode() ([]byte, error) {
	return json.Marshal(content{Format: 1, Activation: r.Time, Token: r.Token, Owner: r.Owner, Node: r.Node, Time: r.Since})
}

// decode decodes data that encode or an operator has written. A missing or empty node has no activation.
func decode(data []byte, stat *zk.Stat) (Record, error) {
	switch {
	case stat == nil:
		return Record{}, nil
	case stat.EphemeralOwner != 0:
		return Record{}, errors.New("the node is ephemeral, and the last activation would be forgotten with a session: use a persistent node")
	case len(data) == 0 && stat.Cversion != 0:
		return Record{}, errors.New("the node has or had children, and may be a container that the servers remove: delete it")
	case len(data) == 0:
		return Record{}, nil
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil || c.Format == 0 || c.Activation.IsZero() {
		return Record{}, fmt.Errorf("the node's data is not an activation: %.40q", data)
	}
	if c.Format != 1 {
		return Record{}, fmt.Errorf("the node holds an activation in format %d: this version supports format 1", c.Format)
	}
	return Record{Time: c.Activation.UTC(), Token: c.Token, Owner: c.Owner, Node: c.Node, Since: c.Time}, nil
}
