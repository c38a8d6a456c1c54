// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package torture injects faults into a real ensemble and into the contenders for its locks and elections, and checks whether
// two clients ever held a lock at the same time. `make torture` calls [Run].
//
// A run with findings keeps its history and prints the command that repeats its faults. Contenders and servers then meet them at
// other instants, so the finding need not recur.
//
// # A run
//
// Contenders are worker processes (package proof/torture/worker). They request a few paths with every operation of the library,
// and write to registers while they hold. Each reaches the servers through its own proxies. Meanwhile the nemesis injects the
// faults of a plan ([GeneratePlan]) and heals them. At the end each client must be granted a lock once more, and one more
// contender must acquire each path. While their clients are still connected, none of their nodes may exist, and all servers must
// have equal nodes.
//
// Package proof/check checks one history (package proof/history), which has
//
//   - the contenders' events, each at its instant of the machine's CLOCK_MONOTONIC;
//   - ZooKeeper's commit order, merged by package txnlog from the transaction logs of all servers, to the millisecond of the
//     leader's clock;
//   - the registers' decisions, each at its instant, in the harness;
//   - when there was a quorum, which answered the harness's writes.
//
// # The verdict
//
// Package verdict judges the document of a run. Each rule of the checker is a promise: valid if it was tested without a finding,
// and unknown if it was never tested (see check.Rule.Counts). A run is valid if every promise is. A run in which a server or the
// harness failed is unsound, unless something was found.
//
// # Faults aimed at holders
//
// Half of the pauses, partitions and kills of a generated plan name "holder" in place of a contender's number: one that, as the
// registers show, holds a lock for longer than the short holds last. The harness requests it to extend its hold (worker.Extend),
// and the fault outlasts its session. A plan alternates between faults of two or three contenders at the same time, without any
// other fault, and rounds of all kinds of faults. A quiet time follows each.
//
// # Recipes
//
// The contenders that have sessions exercise all recipes in one run. Result.Recipes counts how often; the run is unknown if one
// never was. Readers and holders of permits do not write to the registers, so no fault is aimed at them.
//
// With Options.Waiters and Options.Holds, each worker process has an additional client, with that many contenders on each path
// and that many uncontended locks. The faults cancel-waiters and expire-sessions hit all of them at the same time.
//
// # The lock service
//
// With Options.Replicas, every second contender uses replicas of `lockkeeper serve` in place of the library, on the same paths,
// and repeats a request that was not answered at the next replica. Replicas and their links have their own faults, and an
// administrator releases locks by force. The service's answers are not recorded: a replica's error is a finding only
// if it affects a holder, leaves something behind, or ends the replica.
//
// # Which processes were scheduled
//
// A thread of each worker, independent of locks, reads the clock every 5 ms and reports every gap of more than T/32. A late
// holder is excused if such a gap covers the instant by which it had to be notified, or ended within T/32 before it. The only
// other excuse is a node that an operator deleted.
//
// # Stale writes
//
// A holder writes every few milliseconds to two registers: one checks tokens with a fencing.Gate, the other accepts every write.
// It waits between the check of the hold and the write, so that a stopped process sends a stale write when it continues.
//
// [Build] can build contenders and replicas with a patch that breaks the library: see testdata/mutants/README.md.
package torture
