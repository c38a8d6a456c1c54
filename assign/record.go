// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// Limits of a set of partitions. All records together have to fit one transaction.
const (
	MaxPartitions = 10_000
	maxSet        = 512 << 10 // of all names together, in bytes
)

// A membership is the metadata of a member in the group.
type membership struct {
	Weight     int           `json:"weight"`
	RejoinWait time.Duration `json:"rejoinWait"`
	Metadata   []byte        `json:"metadata,omitempty"`
	Leaving    bool          `json:"leaving,omitempty"` // do not wait for it after it has left
}

var memberships = record.Kind[membership]{Name: "a member of an assignment", Check: func(m membership) error {
	return checkWeight(m.Weight)
}}

// A set is the data of the node with the partitions.
type set struct {
	Partitions []string `json:"partitions"` // sorted
}

var sets = record.Kind[set]{Name: "a set of partitions", Check: func(s set) error { return checkPartitions(s.Partitions) }}

// A share is the data of a member's node below assigned. Only leaders write it. It repeats how the leader waits for the member,
// because a later leader may not know a member that has left.
type share struct {
	Token      fencing.Token `json:"token"`      // of the term that wrote it, for people
	Partitions []string      `json:"partitions"` // sorted
	Weight     int           `json:"weight"`
	RejoinWait time.Duration `json:"rejoinWait"`
}

var shares = record.Kind[share]{Name: "the partitions of a member", Check: func(s share) error {
	if err := checkWeight(s.Weight); err != nil {
		return err
	}
	return checkPartitions(s.Partitions)
}}

func checkWeight(weight int) error {
	if weight < 1 || weight > MaxWeight {
		return fmt.Errorf("weight %d is not between 1 and %d", weight, MaxWeight)
	}
	return nil
}

// checkPartitions returns what is wrong with the names of partitions, which are sorted.
func checkPartitions(names []string) error {
	if len(names) > MaxPartitions {
		return fmt.Errorf("%d partitions are over the limit of %d", len(names), MaxPartitions)
	}
	size := 0
	for i, name := range names {
		if err := checkPartition(name); err != nil {
			return err
		}
		if i > 0 && names[i-1] >= name {
			return fmt.Errorf("partition %q occurs twice, or out of order", name)
		}
		size += len(name) + 3
	}
	if size > maxSet {
		return fmt.Errorf("names of partitions of %d bytes are over the limit of %d", size, maxSet)
	}
	return nil
}

// checkPartition returns what is wrong with the name of a partition.
func checkPartition(name string) error {
	if strings.Contains(name, "/") {
		return fmt.Errorf("partition %q has a slash", name)
	}
	if err := zkpath.CheckRecipe("/" + name); err != nil {
		return fmt.Errorf("partition %q: %w", name, err)
	}
	return nil
}

// assigns reports whether both records have the same effect.
func (s share) assigns(other share) bool {
	return s.Weight == other.Weight && s.RejoinWait == other.RejoinWait && slices.Equal(s.Partitions, other.Partitions)
}

// newSet returns the set of those partitions, in any order.
func newSet(names []string) (set, error) {
	s := set{Partitions: append([]string{}, names...)} // not null in JSON
	slices.Sort(s.Partitions)
	return s, checkPartitions(s.Partitions)
}
