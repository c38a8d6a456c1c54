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

// A Record says what the newest epoch is, and whose.
type Record struct {
	Number int64         // of the epoch, 0 if none has been claimed
	Token  fencing.Token // of the term that claimed it, 0 if somebody wrote the node by hand
	ID     string        // as the one who claimed it calls itself
	Node   string        // of its claim, namespace included
	Since  time.Time     // by the clock of its host
}

// held says whether the epoch is that of the claim. A token alone does not say it: nodes of different paths that were made
// in one transaction have the same.
func (r Record) held(c *recipes.Claim) bool { return r.Token == c.Token() && r.Node == c.Path() }

// same says whether both are one epoch.
func (r Record) same(other Record) bool {
	return r.Number == other.Number && r.Token == other.Token && r.Node == other.Node
}

// later says whether the epoch came after other. Numbers begin anew if the node was deleted, and one who writes it by hand
// has no token.
func (r Record) later(other Record) bool { return r.Token > other.Token || r.Number > other.Number }

// byHand says that somebody has written the epoch who is no term.
func (r Record) byHand() bool { return r.Number != 0 && r.Token == 0 }

// whose names the epoch and its holder, for people.
func (r Record) whose() string {
	if r.byHand() {
		return fmt.Sprintf("epoch %d was written by hand", r.Number)
	}
	return fmt.Sprintf("epoch %d is that of %q with token %v", r.Number, r.ID, r.Token)
}

// A text is the data of an epoch's node.
type text struct {
	Format int           `json:"format"` // 1
	Epoch  int64         `json:"epoch"`
	Token  fencing.Token `json:"token,omitzero"`
	ID     string        `json:"id,omitempty"`
	Node   string        `json:"node,omitempty"`
	Time   time.Time     `json:"time,omitzero"`
}

func (r Record) encode() ([]byte, error) {
	return json.Marshal(text{Format: 1, Epoch: r.Number, Token: r.Token, ID: r.ID, Node: r.Node, Time: r.Since})
}

// decode reads what encode has written, or a person. Of a node that is missing there is no Stat, and no epoch in it.
func decode(data []byte, stat *zk.Stat) (Record, error) {
	if stat == nil {
		return Record{}, nil
	}
	switch {
	case stat.EphemeralOwner != 0:
		return Record{}, errors.New("the node is ephemeral: the count would go with a session")
	case len(data) == 0 && stat.Cversion != 0:
		return Record{}, errors.New("the node has or had children: it is no place for an epoch, and as a container would be removed")
	case len(data) == 0:
		return Record{}, nil
	}
	var t text
	if err := json.Unmarshal(data, &t); err != nil || t.Format == 0 {
		return Record{}, fmt.Errorf("the node holds what is not an epoch: %.40q", data)
	}
	switch {
	case t.Format != 1:
		return Record{}, fmt.Errorf("the node holds an epoch in format %d, and this version knows 1", t.Format)
	case t.Epoch < 1 || t.Epoch == math.MaxInt64:
		return Record{}, fmt.Errorf("the node holds epoch %d, want one from 1 to %d", t.Epoch, int64(math.MaxInt64-1))
	}
	return Record{Number: t.Epoch, Token: t.Token, ID: t.ID, Node: t.Node, Since: t.Time}, nil
}
