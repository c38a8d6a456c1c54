// SPDX-License-Identifier: Apache-2.0

package recipes

import "github.com/lockkeeper/lockkeeper/internal/protocol"

// A Mode is what a contender claims. It is part of the name of the contender's node, so that a
// listing alone shows which contenders exclude each other.
type Mode = protocol.Mode

const (
	// Exclusive is the mode of locks, elections and leases: the claim excludes every other. Permits
	// use it too: their names have a weight.
	Exclusive Mode = protocol.Exclusive
	// Write is Exclusive for a contender of a read/write lock: names of this mode are those of
	// Curator's InterProcessReadWriteLock. Its claim can be downgraded: see Queue.Downgrade.
	Write Mode = protocol.Write
	// Read is the mode of a reader. Its claim excludes those of the other modes, and no other
	// reader's.
	Read Mode = protocol.Read
)

// MaxPermits is the greatest limit of Permits, 1<<20.
const MaxPermits = protocol.MaxPermits
