// SPDX-License-Identifier: Apache-2.0

// Package choosing contains only tests: one example for each row of docs/choosing.md that names a problem.
package choosing
