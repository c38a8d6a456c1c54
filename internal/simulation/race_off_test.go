// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simulation

// underRace says whether the race detector watches.
const underRace = false
