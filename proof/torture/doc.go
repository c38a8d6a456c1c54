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
// Contenders are worker processes (package proof/torture/worker, or another program: see below). They request a few paths with every
// operation that the library has, and write to registers while they hold. Then they release the lock, or are notified of its
// loss. Each contender reaches the servers through its own proxies. Meanwhile the nemesis injects the faults of a plan
// ([GeneratePlan]) and heals them: in servers, in contenders, in the links between them, and as an operator who changes nodes.
// At the end of a run all faults are healed, contenders complete their operations, and each of their clients must be granted
// a lock once more. Then one more contender must acquire each path. When all their sessions must have ended, none of their
// nodes may exist.
//
// The events are recorded in one history (package proof/history), which package proof/check checks as it does those of
// the simulation:
//
//   - the contenders' events, each at its instant of CLOCK_MONOTONIC, which the machine's processes share;
//   - ZooKeeper's commit order: package txnlog merges the transaction logs of all servers, which contain the creation and
//     deletion of every node and the end of every session, dated by the leader's clock, to the millisecond;
//   - the registers' decisions, each at its instant, in the process of the harness.
//
// Finally, all servers must have the same nodes. Servers of ZooKeeper 3.8.0 can diverge when one rejoins and is sent the
// transactions that it lacks. Nodes of sessions that the leader does not know then block a queue for ever, and no lock
// library can prevent that. So rejoining servers are sent a snapshot (zookeeper.forceSnapshotSync), and a run after which the
// servers still differ reports that.
//
// # The verdict
//
// Package verdict judges the document of a run. Each rule of the checker is a promise, with a count of how often the run tested
// it (see check.Rule.Counts). A promise is valid if it was tested without a finding, and unknown if it was never tested. A
// run is valid if every promise is. A run in which a server or the harness failed is unsound, unless something was found. Contenders of this library
// state the deadline of each claim at the grant, so that a grant without a recent proof of liveness is found even if it had no
// consequences.
//
// # Faults aimed at holders
//
// Most processes hold no lock most of the time, and a fault that hits one of them tests little. So half of the pauses,
// partitions and kills of a generated plan name "holder" instead of a contender's number. When such a fault is injected, the
// registers show which contender holds a lock and has held it for longer than the short holds last. The harness requests that
// contender to extend its hold while the fault lasts (worker.Extend), and the fault outlasts its session. A plan alternates
// between volleys and mixed rounds. A volley hits two or three contenders while no other fault is in progress; a mixed round
// has faults of all kinds. A quiet time follows each, in which the paths recover.
//
// # Recipes
//
// In one run, the contenders that have sessions exercise all recipes. On each path they request what its recipes have: locks and
// elections on all, permits on one, readers, writers and downgrades on another, and requests for several locks together on three of
// them. The seed draws the operations. Each process is also a member of a group, and a replica of one schedule after the
// other. The rules of package check for these need what ZooKeeper committed: limits of permits, ticks, downgrades and nodes of members
// are in the servers' logs, too.
//
// Candidates have priorities. A leader publishes several values while it works, hands its term over now and then, and drains. Each
// process observes all elections. The servers' logs contain the published values and the hand-overs, so that check.TrueLeader
// compares what an observer was shown with what the ensemble committed, and check.HeldState each value with the life of the leader's
// node. No rule judges who leads after a hand-over: locks contend for the same paths, and do not yield.
//
// A result counts how often each recipe was exercised (Result.Recipes). The run is unknown if one never was. Readers and holders
// of permits do not write to the registers, so no fault is aimed at them: those for any contender hit them, too.
//
// One more path has a lock-delay and a fence function, which records whom it was called for. Some holders of that path close their
// client and do not release. So check.CrashOrClean is tested without faults, too.
//
// Each process waits for a barrier, which one of them sets and removes, and enters and leaves rounds of a double barrier of two or three
// members. They give up after 2 T, and now and then much earlier, so that a process that is down does not stop the others.
//
// # Load
//
// With Options.Waiters and Options.Holds, each worker process has one additional client, with that many contenders on each path
// and that many uncontended locks, which it holds for as long as it runs. Their losses are checked like all others. The faults
// cancel-waiters and expire-sessions hit all of them at the same time; then all join again at the same time.
//
// # The lock service
//
// With Options.Replicas, the run has replicas of the lock service: processes of `lockkeeper serve`. Every second contender uses
// the service in place of the library, on the same paths. Each of these callers knows all replicas, and repeats a request that was
// not answered at the next one. Links and processes of replicas have faults of their own, and an administrator releases locks by
// force. A plan has volleys at all replicas, or all but one, too.
//
// The servers' logs contain every write of a lease's record. So the checker knows when a lease may end, whatever holders and
// observers believe: check.KeptLease. At the end of a run, when all leases must have ended, the replicas are stopped in order.
// What the service itself answers is not recorded: a replica's crash or error is a finding only if it affects a holder, leaves
// something behind, or ends the replica.
//
// # Mutants
//
// [Build] builds contenders, and replicas, with a patch that deliberately breaks the library. `make torture-mutants` shows that the torture
// finds each mutant: testdata/mutants/README.md has the numbers.
//
// # Which processes were scheduled
//
// A paused process cannot be notified in time, and no lock library promises that: tokens exist for this case. A separate thread
// in each worker decides whether the process was scheduled. It only reads the clock every 5 ms, and reports every gap of more
// than T/32. It is independent of locks. A holder is excused if such a gap covers the instant by which it had to be notified,
// or ended within T/32 before it. The only other excuse is a node that an operator deleted.
//
// # Stale writes
//
// A holder writes every few milliseconds to two registers: one checks tokens with a fencing.Gate, the other accepts every
// write. It waits between the check of the hold and the write, so a stopped process sends a stale write when it continues.
// A write is stale if a write with a newer token came before it: the bare register accepts it, the fenced one rejects it.
//
// # Another contender
//
// Any program can contend instead of this library: package proof/torture/worker describes what it must do.
package torture
