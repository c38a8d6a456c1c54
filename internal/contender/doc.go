// SPDX-License-Identifier: Apache-2.0

// Package contender drives processes that contend for a lock or an election, in whatever language: tests of ours, of Curator,
// of Kazoo. A contender reads commands from its standard input, one a line, executes them one after the other, and ends with
// the input. It prints events, each on a line that begins with [Mark], because libraries print as well.
//
//	acquire        acquired [TOKEN], once it is granted
//	try            acquired [TOKEN], or busy
//	release        released
//	count FILE N   counted, after N times: acquire, add one to the number in the file, release
//	session        session ID
//
// A contender can report these events at any time:
//
//	waiting NODE   it waits for a node ahead
//	lost [CAUSE]   its hold or its session is over
//	failed CAUSE   a command has failed
//
// A contender may have further commands and events. [Process] is the end of the test; [Serve] and [Report] are a contender in
// Go. The worker processes of the torture are no such contenders: they decide themselves what to do, and report a history.
package contender

// Mark is the beginning of an event.
const Mark = "= "
