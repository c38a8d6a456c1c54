// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/history"
)

// holdsRoot is the node above the locks that a process holds beside those that all contend for.
const holdsRoot = root + "/holds"

// holdsAt is the node above those of one contender. The processes that take its place after it was killed have the same.
func holdsAt(contender int) string { return fmt.Sprintf("%s/%d", holdsRoot, contender) }

// collapseHolds puts the worst of the further holds' paths, of which there are hundreds, in the place of them all.
func collapseHolds(unavailable map[string]history.Instant) {
	for path, d := range unavailable {
		if len(path) > len(holdsRoot) && path[:len(holdsRoot)+1] == holdsRoot+"/" {
			delete(unavailable, path)
			unavailable[holdsRoot] = max(unavailable[holdsRoot], d)
		}
	}
}
