// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package torture breaks a real ensemble, and those who contend on it for locks and elections, and asks whether two ever
// held at once. `make torture` runs it; [Run] is what that calls.
//
// # What it shows, and what not
//
// A run that finds nothing has found nothing: with these faults, at these times, on this machine. What is broken in a way
// that no fault here brings about is not found, nor is what happens once in more hours than were run. A run that found
// something keeps its history and says how to run its faults again; contenders and servers then meet other instants, so
// that it need not happen again.
//
// # A run
//
// Contenders are worker processes (package torture/worker, or another program: see below). They ask for one of a few paths, in all the ways that
// there are, write to registers while they hold, and give back, or are told that they lost it. Each reaches the servers
// through proxies of its own. Meanwhile faults are inflicted by a plan ([Draw]) and taken back: on servers, on contenders, on
// what is between them, and by hand on the nodes. In the last part of a run everything is healed, contenders finish what
// they have asked for, and each of their clients must be granted one thing more. When they have ended, and one more contender
// has acquired each path, and no session of theirs can be left, nothing of theirs may be.
//
// What happened is recorded in one history (package internal/history), and package internal/check judges it as it does those
// of the simulation:
//
//   - as the contenders saw it, each event at the instant of CLOCK_MONOTONIC, which the machine's processes share;
//   - as the ensemble ordered it: the transaction logs of all servers, put together by package txnlog, tell of every node's
//     creation and deletion and of every session's end, with the leader's clock at the time, to the millisecond;
//   - as the registers decided it, in the process that runs the torture, at the instant at which they did.
//
// In the end all servers are asked whether they have the same nodes. Servers of ZooKeeper 3.8.0 can come to differ when one
// rejoins and is handed the transactions that it lacks; then nodes of sessions that the leader does not know stand in
// everybody's way for ever, and no lock can help it. So those that rejoin are made to take a snapshot
// (zookeeper.forceSnapshotSync), and a run after which they differ nevertheless says so.
//
// # The verdict
//
// Each rule of the checker is a [Promise], with how often the run put it to the test (By in package check states what counts). It held
// up if it was tested and nothing was found; it is not shown if it was never tested, whatever else the run did. A run held up
// if every promise did. Contenders of this library state the deadline of each claim at the grant, so that a grant without
// fresh proof is found also where nothing came of it.
//
// # Faults that aim
//
// Most processes hold nothing most of the time, and a fault that hits one of them tests little. So half of the pauses,
// partitions and kills of a plan that is drawn have "holder" in the place of a contender's number: when the fault is injected,
// the registers tell which contender holds a lock and has held it for longer than the short holds last. That contender is told
// to keep its hold while the fault lasts (worker.Keep), and the fault outlasts its session. A plan alternates between volleys, in
// which two or three contenders are hit while nothing else is broken, and mixed rounds of all kinds. After each there is
// quiet time in which the paths recover.
//
// # Load
//
// With Options.Waiters and Options.Holds each worker process has one further client, with so many contenders of each path and
// so many locks that it holds for as long as it runs. Losses of these are checked as all others are. The faults
// cancel-waiters and expire-sessions hit all of them at the same moment; then all join again at the same moment, too.
//
// # Mutants
//
// [Build] builds contenders with a patch that breaks the library on purpose. `make torture-mutants` shows that the torture
// finds what it must: testdata/mutants/README.md has the numbers.
//
// # Who was scheduled
//
// A paused process cannot be told in time, and nobody promises it: that is what tokens are for. Whether a contender was
// scheduled is decided by a thread of its own that does nothing but look at the clock every 5 ms, and notes every gap of more
// than T/32. It knows nothing of locks. A holder is excused if such a gap covers the instant by which it had to be told, or
// ended within T/32 before it. Nothing else excuses it but a node that was deleted by hand.
//
// # Late writes
//
// Whoever holds writes every few milliseconds to two registers, one that checks tokens with a fencing.Gate and a bare one.
// The wait is between the look at whether it still holds and the write, so a process that is stopped writes late when it
// wakes, as the holder that it was. Writes with a token older than one that has written are counted: the bare register
// accepted them, the fenced one refused them.
//
// # A contender of your own
//
// Any program can contend, in place of this library: package torture/worker describes what it must do.
package torture
