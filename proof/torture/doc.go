// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package torture injects faults into a real ensemble and into the contenders for its locks and elections, and checks whether
// two clients ever held a lock at the same time. `make torture` calls [Run].
//
// A run without findings shows nothing about other faults, times and machines. A run with findings keeps its history and prints
// the command that repeats its faults; contenders and servers then meet them at other instants, so the finding need not recur.
//
// # A run
//
// Contenders are worker processes (package proof/torture/worker, which describes what another program must do to contend). They
// request a few paths with every operation that the library has, and write to registers while they hold. Each contender reaches the servers
// through its own proxies. Meanwhile the nemesis injects the faults of a plan ([GeneratePlan]) and heals them: in servers, in
// contenders, in the links between them, and as an operator who changes nodes. At the end all faults are healed, each client
// must be granted a lock once more, and one more contender must acquire each path. When all their sessions must have ended,
// none of their nodes may exist, and all servers must have the same nodes.
//
// One history (package proof/history), which package proof/check checks, has
//
//   - the contenders' events, each at its instant of CLOCK_MONOTONIC, which the machine's processes share;
//   - ZooKeeper's commit order: package txnlog merges the transaction logs of all servers, which contain the creation and
//     deletion of every node and the end of every session, dated by the leader's clock, to the millisecond;
//   - the registers' decisions, each at its instant, in the process of the harness;
//   - when there was a quorum, which answered the harness's writes.
//
// Servers of ZooKeeper 3.8.0 can diverge when one rejoins and is sent the transactions that it lacks, and so are sent a snapshot
// (zookeeper.forceSnapshotSync).
//
// # The verdict
//
// Package verdict judges the document of a run. Each rule of the checker is a promise, with a count of how often the run tested
// it (see check.Rule.Counts): valid if it was tested without a finding, and unknown if it was never tested. A run is valid if
// every promise is. A run in which a server or the harness failed is unsound, unless something was found. Contenders of this
// library state the deadline of each claim at the grant, so that a grant without a recent proof of liveness is found even if it
// had no consequences.
//
// # Faults aimed at holders
//
// A fault that hits a process without a lock tests little. So half of the pauses, partitions and kills of a generated plan name
// "holder" in place of a contender's number. The registers show which contender holds a lock for longer than the short holds
// last. The harness requests that contender to extend its hold while the fault lasts (worker.Extend), and the fault outlasts its
// session. A plan alternates between volleys, which hit two or three contenders while no other fault is in progress, and rounds
// of all kinds of faults. A quiet time follows each.
//
// # Recipes
//
// The contenders that have sessions exercise all recipes in one run. Some holders of a path with a lock-delay and a fence function
// do not release. The servers' logs contain permits' limits, activations, values and hand-overs, too.
//
// A result counts how often each recipe was exercised (Result.Recipes). The run is unknown if one never was. Readers and holders
// of permits do not write to the registers, so no fault is aimed at them. No rule judges which candidate leads after a hand-over:
// locks contend for the same paths, and do not yield.
//
// With Options.Waiters and Options.Holds, each worker process has one additional client, with that many contenders on each path
// and that many uncontended locks. The faults cancel-waiters and expire-sessions hit all of them at the same time.
//
// # The lock service
//
// With Options.Replicas, every second contender uses replicas of `lockkeeper serve` in place of the library, on the same paths,
// and repeats a request that was not answered at the next replica. Replicas and their links have faults of their own, and an
// administrator releases locks by force. The servers' logs contain every write of a lease's record, so that the checker knows when a
// lease may end: check.KeptLease. What the service answers is not recorded: a replica's crash or error is a finding only if it
// affects a holder, leaves something behind, or ends the replica.
//
// # Which processes were scheduled
//
// A paused process cannot be notified in time. A separate thread in each worker, independent of locks, reads the clock every 5 ms
// and reports every gap of more than T/32. A holder is excused if such a gap covers the instant by which it had to be notified,
// or ended within T/32 before it. The only other excuse is a node that an operator deleted.
//
// # Stale writes
//
// A holder writes every few milliseconds to two registers: one checks tokens with a fencing.Gate, the other accepts every
// write. It waits between the check of the hold and the write, so a stopped process sends a stale write when it continues.
// A write is stale if a write with a newer token came before it.
//
// [Build] can build contenders and replicas with a patch that breaks the library: see testdata/mutants/README.md.
package torture
