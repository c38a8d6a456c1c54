// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package rivals adapts the locks of other projects to package torture, so that they run with the same workload, the same
// faults and the same checker as this library. Each adapter is written as a careful user would write it, according to the
// library's documentation, and links to it.
//
// # What is compared
//
//   - Overlaps: a running holder believes that it holds a lock that has been granted to another client.
//   - How late holders are notified of a loss.
//   - Stale writes: writes that reach a register after a newer holder's.
//   - If a library has tokens: whether they rise, and whether the register that checks them accepts a stale write.
//   - Leftovers: at the end, one more contender must be able to acquire every path.
//
// Only ZooKeeper's commit order is known. The result of a rival lists the rules that were not checked, and the faults that do
// not exist for it.
package rivals
