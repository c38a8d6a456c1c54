// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package rivals has the locks of others for the torture of package torture: the same contenders, who ask for the same, the
// same faults and the same checker as this library's own. Each is written the way a careful user of it writes it, after its
// documentation, and says where that is.
//
// It is a module of its own: nobody who uses this library wants what these need.
//
// # What is compared
//
// Overlaps: two that believe to hold at once, though both are scheduled. How late holders are told, and writes of older
// holders that reach a register behind those of newer ones. Where a library gives out tokens, whether they rise, and whether
// the register that checks them lets anything stale in. And what is left behind: one more contender must be able to acquire
// everything when all is over.
//
// What the servers ordered is known of ZooKeeper only. What is not asked of a rival, and which faults do not exist there,
// stands in its result.
package rivals
