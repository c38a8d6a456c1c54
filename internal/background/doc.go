// SPDX-License-Identifier: Apache-2.0

// Package background runs code that may block on goroutines where it delays no deadline.
package background
