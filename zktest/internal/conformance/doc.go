// SPDX-License-Identifier: Apache-2.0

// Package conformance compares zktest with a real server, in tests only: the same requests go to both, and both must
// answer the same: every reply, Stat and error code, the zxids, the events and their position among the replies, and
// the point at which a connection ends.
//
//	go test ./zktest/internal/conformance
//
// Scenarios are written, or generated from a seed. The test shows the first difference between two transcripts. Permanent
// differences are listed with their reasons, in this package's tests and in zktest's documentation.
package conformance
