// SPDX-License-Identifier: Apache-2.0

package metrics

import "sync"

// NoPath labels all paths with an empty value, which metric systems omit.
func NoPath(string) string { return "" }

// FirstPaths returns a function that labels the first n paths with themselves, and all others with
// "other". It is safe for concurrent use.
func FirstPaths(n int) func(path string) string {
	var mu sync.Mutex // guards known
	known := make(map[string]bool, max(n, 0))
	return func(path string) string {
		mu.Lock()
		defer mu.Unlock()
		if known[path] {
			return path
		}
		if len(known) >= n {
			return "other"
		}
		known[path] = true
		return path
	}
}
