// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// holdsRoot is the parent of the uncontended locks that each process holds in addition to the contended ones.
const holdsRoot = root + "/holds"

// holdsAt returns the parent of the uncontended locks of one contender. Processes that replace a killed one use the same.
func holdsAt(contender int) string { return fmt.Sprintf("%s/%d", holdsRoot, contender) }

// collapseHolds replaces the values of the hundreds of uncontended paths by the worst of them.
func collapseHolds(unavailable map[string]history.Instant) {
	for path, d := range unavailable {
		if len(path) > len(holdsRoot) && path[:len(holdsRoot)+1] == holdsRoot+"/" {
			delete(unavailable, path)
			unavailable[holdsRoot] = max(unavailable[holdsRoot], d)
		}
	}
}
