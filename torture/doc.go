// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package torture injects faults into a real ensemble and into the contenders for its locks and elections, and checks whether
// two clients ever held a lock at the same time. `make torture` calls [Run].
//
// # What a run shows, and what not
//
// A run without findings has found nothing with these faults, at these times, on this machine. It does not find a bug that
// none of these faults triggers, nor one that occurs once in more hours than were run. A run with findings keeps its history
// and prints the command that repeats its faults. Contenders and servers then meet the faults at other instants, so the
// finding need not recur.
//
// # A run
//
// Contenders are worker processes (package torture/worker, or another program: see below). They ask for one of a few paths,
// in all the ways that the library offers, and write to registers while they hold. Then they release the lock, or are
// notified of its loss. Each contender reaches the servers through its own proxies. Meanwhile the nemesis injects the faults
// of a plan ([Draw]) and heals them: on servers, on contenders, on the links between them, and as an operator on the nodes.
// At the end of a run all faults are healed, contenders complete their operations, and each of their clients must be granted
// one thing more. Then one more contender must acquire each path. When no session of theirs can be left, none of their nodes
// may be.
//
// The events are recorded in one history (package internal/history), which package internal/check checks as it does those of
// the simulation:
//
//   - the contenders' events, each at its instant of CLOCK_MONOTONIC, which the machine's processes share;
//   - ZooKeeper's commit order: package txnlog merges the transaction logs of all servers, which have the creation and
//     deletion of every node and the end of every session, with the leader's clock, to the millisecond;
//   - the registers' decisions, each at its instant, in the process of the harness.
//
// Finally, all servers must have the same nodes. Servers of ZooKeeper 3.8.0 can diverge when one rejoins and is sent the
// transactions that it lacks. Then nodes of sessions that the leader does not know block a queue for ever, and no lock
// library can help it. So rejoining servers are made to take a snapshot (zookeeper.forceSnapshotSync), and a run after which
// the servers still differ reports that.
//
// # The verdict
//
// Each rule of the checker is a [Promise], with how often the run tested it (By in package check states what counts). A
// promise held up if it was tested and nothing was found. It is not shown if it was never tested, whatever else the run did.
// A run held up if every promise did. Contenders of this library state the deadline of each claim at the grant, so that a
// grant without fresh proof of liveness is found even if it had no consequences.
//
// # Faults aimed at holders
//
// Most processes hold nothing most of the time, and a fault that hits one of them tests little. So half of the pauses,
// partitions and kills of a generated plan name "holder" instead of a contender's number. When such a fault is injected, the
// registers show which contender holds a lock and has held it for longer than the short holds last. That contender is asked
// to extend its hold while the fault lasts (worker.Keep), and the fault outlasts its session. A plan alternates between
// volleys, in which two or three contenders are hit while no other fault is in progress, and mixed rounds of all kinds. A
// quiet time follows each, in which the paths recover.
//
// # Load
//
// With Options.Waiters and Options.Holds, each worker process has one additional client, with that many contenders of each
// path and that many locks, which it holds for as long as it runs. Their losses are checked like all others. The faults
// cancel-waiters and expire-sessions hit all of them at the same time; then all join again at the same time.
//
// # Mutants
//
// [Build] builds contenders with a patch that deliberately breaks the library. `make torture-mutants` shows that the torture
// finds each mutant: testdata/mutants/README.md has the numbers.
//
// # Which processes were scheduled
//
// A paused process cannot be notified in time, and no lock library promises that: tokens are for this case. A separate thread
// in each worker decides whether the process was scheduled. It only reads the clock every 5 ms, and reports every gap of more
// than T/32. It knows nothing of locks. A holder is excused if such a gap covers the instant by which it had to be notified,
// or ended within T/32 before it. The only other excuse is a node that an operator deleted.
//
// # Stale writes
//
// A holder writes every few milliseconds to two registers: one checks tokens with a fencing.Gate, the other accepts every
// write. The wait is between the check of the hold and the write, so a stopped process sends a stale write when it continues.
// Writes with a token older than one that has written are counted: the bare register accepts them, the fenced one rejects
// them.
//
// # Another contender
//
// Any program can contend instead of this library: package torture/worker describes what it must do.
package torture
