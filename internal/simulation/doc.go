// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the ZooKeeper client, the servers of zktest and the recipes in one bubble of fake time, does to
// them whatever can be done to a network, to servers and to processes, and has package check judge what came of it.
//
// There are three kinds of runs. A [Scenario] is a short story, told again with the connection cut at its first frame, its
// second, and so on, before the request and after it took effect, until the story runs untouched; and with two cuts. A
// [Plan] is a list of what contenders do and of what goes wrong meanwhile, drawn from a seed and run for half a minute of
// fake time. A [Sweep] are plans that have one thing go wrong at one instant after the other.
//
// # How to run it
//
//	go test ./internal/simulation                                    all of it, some 30 000 runs
//	go test ./internal/simulation -run NoPlan -sim.seeds 50000       more plans; -sim.first says from which seed on
//	go test ./internal/simulation -run NoPlan -sim.seed 17           one plan, twenty times over: -sim.repeat
//	go test ./internal/simulation -run NoPlan -sim.plan 'servers=…'  the same, of a plan that is given as text
//	go test … -sim.reduce                                            and leave out of it what is not needed for it to fail
//	go test ./internal/simulation -run NoCut -sim.cut 'one server: a before 3'
//
// What fails says which of these repeats it, and where its history is. Under the race detector it is a sample.
//
// A plan is repeated exactly. What comes of it is not, quite: the order in which goroutines of one instant run, and what
// the client draws at random, are not ours to say. So one that fails is repeated some times.
//
// # Timing
//
// The seed draws the timing as well: how often heartbeats come (from every T/12 to every 3T/10), how many ticks are in T
// (from 2 to 16), how long frames are under way. A promise that is kept only because heartbeats, ticks and round trips
// lie to each other as they usually do is not kept. A plan's text says "beat" and "away" where they are not the usual
// ones: T/6 and 1 ms.
//
// # Sessions of many nodes
//
// One plan in 64, and the tests of crowd_test.go, have c0 hold 200 further locks: more than one heartbeat checks. An
// operator deletes one of their nodes, or many at the same instant.
//
// # What is found
//
// Each run ends with everything healed, a last round in which every process that lives must get every lock, and a while of
// quiet. Then package check judges the history, no client may have a node in its ledger, no session may have made a node
// that its client does not know of, and when all is closed no goroutine may be left.
//
// # State in ZooKeeper itself
//
// All who hold something write state to the ensemble as well, at every turn, by transactions that check their own node;
// and those who reign claim an epoch first, and write in it. They do not wait for one write before they send the next, and
// the last one is under way while they release. What the ensemble then did is told by itself, in its own order, and the
// rules about it excuse nobody: neither a pause nor a hand that deletes a node or writes an epoch.
//
// # Pauses
//
// A process of the simulation cannot be stopped as SIGSTOP would: its goroutines are those of the bubble. What stands for
// it holds the process's link in both directions, and stops the process's own code (workers and watchers alike) at the
// next thing that it would do or note. So what it learns, it learns when it wakes; and a worker that has looked at its
// hold writes when it wakes without looking again, as only a paused process can. What goes on is what the recipes and the
// ZooKeeper client do by their own clocks, without the network: a claim's deadline passes in the pause and not on waking,
// which nobody sees before the process wakes; a connection is given up in the pause; the session is given up 2 T into it.
// None of it can reach anybody. What is therefore not simulated is a pause between two steps of the recipes' own code,
// between the look at the deadline and the grant, for instance; for that there are processes that are really stopped.
package simulation
