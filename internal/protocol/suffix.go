// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxPermits is the greatest limit of permits. It has fewer digits than the nonces in names, so
// that no nonce is taken for a weight.
const MaxPermits = 1 << 20

// WithWeight adds a weight to the nonce of a name, which ends in -w<weight>-lock-<number> then. To
// programs that do not know weights, it is the name of a lock's contender, for which they wait.
func WithWeight(nonce string, weight int32) string { return withSuffix(nonce, "w", int64(weight)) }

// parseWeight returns the weight in what stands before the separator of a name, 0 if there is none.
func parseWeight(before string) int32 {
	return int32(parseSuffix(before, "w", MaxPermits)) //nolint:gosec // at most MaxPermits
}

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

// withSuffix adds a letter and a number to the nonce of a name, and nothing for the number 0.
func withSuffix(nonce, letter string, number int64) string {
	if number == 0 {
		return nonce
	}
	if nonce != "" {
		nonce += "-"
	}
	return nonce + letter + strconv.FormatInt(number, 10)
}

// parseSuffix returns the number of 1 to most that withSuffix added, given what stands before the
// separator of a name. It returns 0 if there is none.
func parseSuffix(before, letter string, most int64) int64 {
	before, found := strings.CutSuffix(before, "-")
	if !found {
		return 0
	}
	i := strings.LastIndex(before, "-"+letter)
	if i < 0 {
		return 0
	}
	digits := before[i+len("-"+letter):]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 1 || n > most || digits[0] == '0' || digits[0] == '+' {
		return 0
	}
	return n
}
