// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package rivals adapts other lock libraries for package torture: the same workload, the same faults and the same checker as
// for this library. Each adapter is written as a careful user would write it, by the library's documentation, and links to it.
//
// It is in its own module: users of this library do not need the dependencies of the rivals.
//
// # What is compared
//
// Overlaps: two clients believe at the same time that they hold, though both are scheduled. How late holders are notified, and writes of older
// holders that reach a register after those of newer ones. If a library has tokens, whether they rise, and whether the register
// that checks them accepts a stale write. And leftovers: one more contender must be able to acquire every path at the end.
//
// The commit order is known only of ZooKeeper. A rival's result lists the rules that are not checked, and the faults that do
// not exist there.
package rivals
