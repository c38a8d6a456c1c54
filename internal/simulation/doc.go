// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the ZooKeeper client, the servers of zktest and the recipes in one bubble of fake time, injects
// faults into the network, the servers and the processes, and checks the resulting histories with package check.
//
// There are three kinds of runs. A [Scenario] is a short script. It runs with the connection cut at its first frame, at its
// second, and so on, before the request and after it took effect, until the script ends before the cut; and with two cuts.
// A [Plan] is a list of operations of contenders and of faults, drawn from a seed and run for half a minute of fake time. A
// [Sweep] is a plan that is repeated with its fault at each of many instants.
//
// # How to run it
//
//	go test ./internal/simulation                                    everything; it prints the number of runs
//	go test ./internal/simulation -run NoPlan -sim.seeds 50000       more plans; -sim.first is the first seed
//	go test ./internal/simulation -run NoPlan -sim.seed 17           one plan, twenty times: -sim.repeat
//	go test ./internal/simulation -run NoPlan -sim.plan 'servers=…'  the same, for a plan given as text
//	go test … -sim.shrink                                            and remove the steps that the failure does not need
//	go test ./internal/simulation -run NoCut -sim.cut 'one server: a before 3'
//
// A failure prints the command that repeats it and the file of its history. Under the race detector, only a sample runs.
//
// A plan is repeated exactly, but its outcome can differ: the order in which goroutines of one instant run, and the random
// draws of the client, are not under the simulation's control. So a failed plan is repeated several times.
//
// # Timing
//
// The seed also draws the timing: the heartbeat period (from T/12 to 3T/10), the number of ticks in T (from 2 to 16), and
// the latency of frames. A promise that holds only for the usual relation of heartbeats, ticks and round trips is broken
// by some seed. A plan's text contains "beat" and "away" where the heartbeat period and the latency are not the usual T/6
// and 1 ms.
//
// # Sessions with many nodes
//
// In one plan of 64, and in the tests of crowd_test.go, c0 also holds 200 locks that no other process requests, more than one
// heartbeat checks. An operator deletes one of their nodes, or many at the same instant.
//
// # Watches that are set again
//
// The client sets its watches again after each reconnection, and needs several packets for many of them. Scenarios in which a
// connection ends between two of these, or a server refuses one (WatchScenarios), run with every cut. In one plan of eight,
// each process has a few watches that need a packet each ("watches" in the plan's text).
//
// # ClickHouse Keeper
//
// One variant of the ensemble, and one plan of 32 ("keeper" in the plan's text), behaves as ClickHouse Keeper where that can harm a
// client: each connection begins another session, and the nodes of the former one live until its timeout.
//
// # Leases
//
// Scenarios with replicas of a lock service (LeaseScenarios) run like the others, with the connection of each replica cut at
// each frame, and package check judges them by the same rules. Callers have no session: answers are lost, handlers outlive
// their callers, replicas crash and pause, and one queue holds leases and contenders of the library.
//
// A lease plan (NewLeasePlan) is a plan with two or three replicas, three callers that repeat, duplicate and abandon their
// requests, and one or two clients of the library. Besides the other faults, answers are slow, some servers always lag behind,
// replicas are replaced, and an administrator revokes leases. Its text form, its repetition and its shrinking are those of
// other plans. There is one lease plan for 24 others.
//
// Callers keep the rule of package lease on a clock that is slower by 1/64. Package check judges them, and each version of
// each record in the ensemble's commit order: see its rules KeptLease, LeaseRecord and TrueRelease.
//
// # Readers and writers
//
// Scenarios of read/write locks (ReadWriteScenarios) run with every cut, and a third of the plans turn some of their operations
// into reads, writes and downgrades, on the paths on which the others lock and campaign. Readers access the registers with
// shared tokens, and commit state as writers do.
//
// # Permits
//
// Scenarios of semaphores (PermitScenarios) run with every cut, and a quarter of the plans turn some of their operations into
// acquisitions of permits. The ensemble records the limits that it committed, and the checks
// compare each grant with the contenders and the limit that existed at its transaction: see the rule PermitsWithinLimit.
//
// # Several locks
//
// Scenarios of requests for several locks (AllScenarios) run with every cut, and half of the plans with two paths turn some of
// their locks into requests for both, in either order, some of them into tries or with the first lock for reading. The history has a grant for each lock, which is judged like any other.
// The holder is notified by the hold of all: see the rule AllOrNothing. An operator also deletes the node of one lock.
// A request that waits for minutes is part of a deadlock.
//
// # Members
//
// Scenarios with members of a group (GroupScenarios) run with every cut, too. Members record at which instants their client
// states that they are registered, and an observer each listing that it gets. The checks compare both with what the ensemble
// committed; at the end the observer must show what the ensemble has, and no member's node may be left.
//
// # Schedules
//
// Scenarios with replicas of a schedule (ScheduleScenarios) run with every cut. Replicas record each tick that they run, and the
// checks compare that with the ticks that the ensemble committed. At the end a replica must run a tick.
//
// # Hand-over and priorities
//
// Scenarios with candidates that step back (HandOverScenarios) run with every cut, too. A term that is granted to a candidate ahead
// of the target of the last hand-over, while the target's node exists, is a problem; so is a dead candidate of a higher priority
// that delays the next leader, and a candidate that does not lead in the end.
//
// # Takeovers
//
// Scenarios in which all contenders have a lock-delay and a fence function (TakeoverScenarios) run with every cut, and so does one
// plan of eight, without readers, permits and requests for several locks. The fence functions record the former holders. The
// checks compare that, and the delay of each grant, with the holders that did not release: see the rule CrashOrClean.
//
// # Elections
//
// Scenarios with leaders that publish values and check their health (ElectionScenarios) run with every cut. The ensemble
// records the values that it committed, and an observer each leader that it is shown: see the rule TrueLeader. A leader also
// publishes when it has lost its term, and while it resigns. A leader whose health check fails must end its term in
// time. At the end another candidate leads, and the observer must be shown its value.
//
// # Nested locks
//
// Scenarios of re-entrant locks (NestScenarios) run with every cut. Holders lock again under the context of their hold, and
// under one that outlives it, and unlock the outer hold first. No hold may end as released before the last Unlock, and no
// lock may join a hold that has ended. In a third of the plans, some locks are nested, and leaders publish values.
//
// # Barriers
//
// Scenarios with barriers and double barriers (BarrierScenarios) run with every cut. Processes record when they wait for a barrier
// and pass it, and when they enter and leave a round. The checks compare that with the nodes that the ensemble committed. At
// the end two processes must enter and leave a round.
//
// # What is checked
//
// Each run ends with all faults healed, a last round in which every running process must acquire every lock, and a quiet
// period. Then package check checks the history. No client may have an outstanding node, no session may have created a
// node unless its client knows the session, and no goroutine may be left when everything is closed.
//
// # State in ZooKeeper itself
//
// Holders also write state to the ensemble, each time that they write to the registers, in transactions that check their
// own node. The operation "reign" claims an epoch first, and writes in it. Holders send the next write without waiting for
// the previous one, and the last write is still under way while they release. The ensemble records what it committed, in its own order, and
// nothing excuses a violation of the rules about these writes: neither a pause nor an operator that deletes a node or
// writes an epoch.
//
// # Pauses
//
// SIGSTOP cannot stop a process of the simulation, because its goroutines belong to the bubble. A simulated pause holds
// back the frames of the process's link in both directions, and stops the process's own code (workers and watchers) before
// its next action or event. So the process receives everything when it wakes, and a worker that has checked its hold writes
// when it wakes without a second check, as only a paused process can. The recipes and the ZooKeeper client continue what
// depends on their clocks and not on the network: a claim's deadline passes during the pause and not on waking, which the
// process cannot observe before it wakes; a connection is given up during the pause; the session is given up after 2T. None
// of this can reach another process. A pause between two steps of the recipes' own code, for instance between the check of
// the deadline and the grant, is therefore not simulated. The runs on real servers stop real processes for that.
package simulation
