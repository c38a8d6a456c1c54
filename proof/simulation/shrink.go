// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Shrink removes steps from a plan as long as it still fails, and returns the shortest plan found. If a plan fails only
// sometimes, fails must run it several times.
func Shrink(p Plan, fails func(Plan) bool) Plan {
	for chunk := len(p.Steps) / 2; chunk > 0; {
		shrunk := false
		for i := 0; i+chunk <= len(p.Steps); {
			shorter := p
			shorter.Steps = slices.Delete(slices.Clone(p.Steps), i, i+chunk)
			if fails(shorter) {
				p, shrunk = shorter, true
			} else {
				i += chunk
			}
		}
		if !shrunk || chunk > 1 {
			chunk /= 2
		}
	}
	return p
}
