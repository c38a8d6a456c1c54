// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package rivals adapts the locks of other projects to package torture, so that they run with the same workload, the same
// faults and the same checker as this library. Each adapter is written as a careful user would write it, according to the
// library's documentation, and links to it.
//
// Only ZooKeeper's commit order is known. The result of a rival lists the rules that were not checked, and the faults that do
// not exist for it.
package rivals
