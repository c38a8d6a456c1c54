// SPDX-License-Identifier: Apache-2.0

package simulation

import "fmt"

// lockPath is the path of the lock and of the election of all scenarios.
const lockPath = "/l"

// crowdParent is the parent of the locks of a crowd.
const crowdParent = "/crowd"

// crowdPath returns the path of the i-th lock of a crowd.
func crowdPath(i int) string { return fmt.Sprintf("%s/%03d", crowdParent, i) }

// stateParents contains the parents of the nodes for state in ZooKeeper itself. Each transaction writes the nodes of a path
// below all of them; the holders of each number of a path's slots have their own.
var stateParents = []string{"/state", "/copy"}

// limitPath returns the node that has the limit of a path's permits, below which the numbers of its slots are.
func limitPath(path string) string { return path + "-limit" }

// mostSlots is the highest limit of slots that a scenario or a plan sets.
const mostSlots = 4

// statePath returns the node of a path below a parent, or of a number of its slots, empty for none.
func statePath(parent, path, number string) string {
	if number != "" {
		number = "-" + number
	}
	return parent + path + number
}

// assignPath is the path of the assignment of all scenarios, and of plans the parent of their paths. assigned contains the partitions of each.
const assignPath = "/assign"

var assigned = []string{"0", "1", "2"}

// epochPath returns the node that counts a path's epochs.
func epochPath(path string) string { return epochsParent + path }

const epochsParent = "/epoch"
