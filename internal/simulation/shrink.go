// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Reduce leaves steps of a plan out for as long as it still fails, and returns what is left. What fails only now and then
// is to be tried several times by fails.
func Reduce(p Plan, fails func(Plan) bool) Plan {
	for chunk := len(p.Steps) / 2; chunk > 0; {
		reduced := false
		for i := 0; i+chunk <= len(p.Steps); {
			shorter := p
			shorter.Steps = slices.Delete(slices.Clone(p.Steps), i, i+chunk)
			if fails(shorter) {
				p, reduced = shorter, true
			} else {
				i += chunk
			}
		}
		if !reduced || chunk > 1 {
			chunk /= 2
		}
	}
	return p
}
