// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"

	records "github.com/lockkeeper/lockkeeper/internal/record"
)

// A SizeError reports that the size of a process's Double differs from the size of the members that are in the barrier, or wait.
type SizeError struct {
	Path   string // of the barrier
	Size   int    // of NewDouble
	Stored int
}

// Error names both sizes.
func (e *SizeError) Error() string {
	return fmt.Sprintf("size is %d in this process and %d in %s: use the same size in all processes", e.Size, e.Stored, e.Path)
}

// A record states which round is the newest, and which members are in it. It is the data of one node, and each write of that is one
// step of all members:
//
//	           n members wait for round r + 1
//	over(r)  ────────────────────────────────►  in progress(r + 1)
//	over(r)  ◄────────────────────────────────  in progress(r)
//	           no member of round r has a node
type record struct {
	Size    int      // of the barrier
	Round   int64    // the newest, from 1; 0 if there was none
	Members []string // of that round; none if it is over
	life    int64    // czxid of the node: the rounds of one that was deleted and created again are other rounds
	version int32    // of the node
}

// isOver reports whether the newest round is over.
func (r record) isOver() bool { return len(r.Members) == 0 }

// next returns the round for which members wait.
func (r record) next() round { return round{r.life, r.Round + 1} }

// newest returns the newest round.
func (r record) newest() round { return round{r.life, r.Round} }

// started returns the record when the next round has begun.
func (r record) started(members []string) record {
	return record{Size: r.Size, Round: r.Round + 1, Members: members, life: r.life}
}

// closed returns the record when the newest round is over.
func (r record) closed() record { return record{Size: r.Size, Round: r.Round, life: r.life} }

// resized returns the record when the size has changed. It skips a round.
func (r record) resized(size int) record { return record{Size: size, Round: r.Round + 1, life: r.life} }

// A round names one round in all lives of a barrier.
type round struct {
	life   int64
	number int64
}

// name returns the name of the node below which the round's members have theirs.
func (r round) name() string {
	return strconv.FormatInt(r.life, 36) + "-" + strconv.FormatInt(r.number, 10)
}

// A phase is how far a round is, for one of its members.
type phase int

const (
	forming phase = iota // it has not begun
	entered              // it has begun with the member
	missed               // it has begun without the member, is over, or is not the next one any more
)

// phaseOf returns how far a round is for a member that waits for it. The member has read a record whose next round it was, and no answer
// is older than an earlier one: an earlier round is the newest only if the record was restored. Then other members wait for another round.
func (r record) phaseOf(of round, id string) phase {
	switch {
	case r.life != of.life:
		return missed
	case r.next() == of:
		return forming
	case r.Round == of.number && slices.Contains(r.Members, id):
		return entered
	}
	return missed
}

// A content is the data of the node.
type content struct {
	Size    int      `json:"size"`
	Round   int64    `json:"round"`
	Members []string `json:"members,omitempty"`
	Life    int64    `json:"life,omitempty"` // czxid of the node, as the writer had read it; 0 in the first content
}

// unknown are the members of a round of which only their nodes are known. No member has that name.
var unknown = []string{""}

var stored = records.Kind[content]{Name: "the state of a double barrier", Check: func(c content) error {
	if c.Round < 0 || len(c.Members) != 0 && len(c.Members) != c.Size {
		return fmt.Errorf("%d members of %d in round %d", len(c.Members), c.Size, c.Round)
	}
	return checkSize(c.Size)
}}

func (r record) content() content {
	return content{Size: r.Size, Round: r.Round, Members: r.Members, Life: r.life}
}

func decode(data []byte, stat *zk.Stat) (record, error) {
	if stat.EphemeralOwner != 0 {
		return record{}, errors.New("the node is ephemeral")
	}
	c, err := stored.Decode(data)
	if err != nil {
		return record{}, err
	}
	if stat.Version > 0 && c.Life != stat.Czxid && len(c.Members) == 0 {
		// The writer had read a node that an operator has deleted since. What it has overwritten can be a round in progress.
		c.Members = unknown
	}
	return record{Size: c.Size, Round: c.Round, Members: c.Members, life: stat.Czxid, version: stat.Version}, nil
}

func checkSize(n int) error {
	if n < 1 || n > MaxSize {
		return fmt.Errorf("size of %d members: must be 1 to %d", n, MaxSize)
	}
	return nil
}
