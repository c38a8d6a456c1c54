// SPDX-License-Identifier: Apache-2.0

// Package conformance holds zktest to a real server, in tests only: the same requests go to both, and all that comes
// back has to be the same: every reply, Stat and error code, the zxids, the events and their place among the replies,
// and where a connection ends.
//
//	go test ./zktest/internal/conformance
//
// Scenarios are written, or generated from a seed. What they are answered is written down in words that do not depend
// on the server; where two transcripts part, the test shows it. The flags begin with -conformance: for more sequences,
// longer ones, or one again that failed, and for a folder to put the transcripts in.
//
// What stays different is listed with its reason, in this package's tests and in zktest's documentation.
package conformance
