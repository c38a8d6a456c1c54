// SPDX-License-Identifier: Apache-2.0

// Package contender drives processes that contend for a lock or an election, in any language: with Lockkeeper, Curator, Kazoo.
// A contender reads commands from its standard input, one a line, executes them one after the other, and ends with the input.
// It prints events, each on a line that begins with [Mark], because libraries print as well.
//
//	acquire        acquired [TOKEN], once it is granted
//	try            acquired [TOKEN], or busy
//	release        released
//	holds          holds true or holds false: whether the library counts it as the holder
//	renew          renewed, after it replaced its lock by a new object
//	count FILE N   counted, after N times: acquire, add one to the number in the file, release
//	session        session ID
//	crowd KIND N   crowded, after it opened N more mutexes: with "sessions" a session for each, with "locks" a path for each
//	cycle N        cycled NANOSECONDS, after each of them was acquired and released N times, all at the same time
//
// A contender can report these events at any time:
//
//	waiting NODE   it waits for a node ahead
//	lost [CAUSE]   its hold or its session is over
//	failed CAUSE   a command has failed
//	version V      the version of its library
//
// A test uses [Process]; a contender in Go uses [Serve] and [Report].
package contender

// Mark is the beginning of an event.
const Mark = "= "
