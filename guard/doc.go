// SPDX-License-Identifier: Apache-2.0

// Package guard closes the ZooKeeper sessions of a process immediately after its death.
//
//	func main() {
//		guard.Main(nil) // the first line
//		…
//		g, err := guard.Start(ctx)
//		client, err := recipes.Connect(ctx, servers, &recipes.Options{Guard: g})
package guard
