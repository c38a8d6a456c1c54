// SPDX-License-Identifier: Apache-2.0

package protocol

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
