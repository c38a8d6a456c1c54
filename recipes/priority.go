// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

// MaxPriority is the highest priority of a Candidacy.
const MaxPriority = protocol.MaxPriority

// CheckPriority returns what is wrong with a priority, nil if nothing is.
func CheckPriority(priority int) error {
	if priority < 0 || priority > MaxPriority {
		return fmt.Errorf("priority %d: must be 0 to %d", priority, MaxPriority)
	}
	return nil
}
