// SPDX-License-Identifier: Apache-2.0

//go:build !race

package simulation

// underRace reports whether the race detector is enabled.
const underRace = false
