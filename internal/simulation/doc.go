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
//	go test ./internal/simulation                                    everything, some 30 000 runs
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
// # Leases
//
// Scenarios with replicas of a lock service (LeaseScenarios) run like the others, with the connection of each replica cut at
// each frame, and package check judges them by the same rules. Callers have no session: answers are lost, handlers outlive
// their callers, replicas crash and pause, and one queue holds leases and contenders of the library.
//
// The tests of lease plans draw two replicas of a lock service from a seed, callers that repeat, duplicate and
// abandon their requests, and a client of the library, on servers of which some lag behind. Connections break, answers are
// slow, replicas are replaced, and an administrator revokes leases. Holders keep the rule of package lease on a clock that is
// slower by 1/64. The checks read what the ensemble committed, in its order: two grants do not overlap, no node is deleted
// before its holder has stopped, no rule for writing is broken, and no node is left at the end. A failure prints the seed.
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
