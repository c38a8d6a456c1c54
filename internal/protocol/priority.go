// SPDX-License-Identifier: Apache-2.0

package protocol

import "fmt"

// MaxPriority is the highest priority of a contender. It has fewer digits than the nonces in names,
// so that no nonce is taken for a priority.
const MaxPriority = 1000

// WithPriority adds a priority to the nonce of a name, which ends in -p<priority>-lock-<number>
// then. To programs that do not know priorities, it is the name of a lock's contender.
func WithPriority(nonce string, priority int16) string {
	return withSuffix(nonce, "p", int64(priority))
}

// parsePriority returns the priority in what stands before the separator of a name, 0 if there is
// none.
func parsePriority(before string) int16 {
	return int16(parseSuffix(before, "p", MaxPriority)) //nolint:gosec // at most MaxPriority
}

// CheckPriority returns what is wrong with a priority, nil if nothing is.
func CheckPriority(priority int) error {
	if priority < 0 || priority > MaxPriority {
		return fmt.Errorf("priority %d: must be 0 to %d", priority, MaxPriority)
	}
	return nil
}
