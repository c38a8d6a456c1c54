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
// below all of them.
var stateParents = []string{"/state", "/copy"}

// epochPath returns the node that counts a path's epochs.
func epochPath(path string) string { return epochsParent + path }

const epochsParent = "/epoch"
