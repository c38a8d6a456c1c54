// SPDX-License-Identifier: Apache-2.0

// Package fences contains only tests: runnable examples of the guards whose stores need a driver.
package fences
