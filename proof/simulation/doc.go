// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the ZooKeeper client, the servers of zktest and the recipes in one bubble of fake time, injects
// faults into the network, the servers and the processes, and checks the resulting histories with package check.
//
// A [Scenario] is a short script. It runs with the connection broken at each of its frames in turn, before the request and after
// it took effect; and with two breaks. A [Plan] is a list of operations of contenders and of faults, drawn from a seed and run
// for half a minute of fake time. A [Sweep] is a plan that is repeated with its fault at each of many instants.
//
// # How to run it
//
//	go test ./proof/simulation                                    everything; it prints the number of runs
//	go test ./proof/simulation -run NoPlan -sim.seeds 50000       more plans; -sim.first is the first seed
//	go test ./proof/simulation -run NoPlan -sim.seed 17           one plan, twenty times: -sim.repeat
//	go test ./proof/simulation -run NoPlan -sim.plan 'servers=…'  the same, for a plan given as text
//	go test … -sim.shrink                                         and remove the steps that the failure does not need
//	go test ./proof/simulation -run NoCut -sim.cut 'one server: a before 3'
//
// A failure prints the command that repeats it and the file of its history. Under the race detector, only a sample runs. The
// order of goroutines of one instant, and the client's random draws, can differ in a repetition.
//
// # What varies
//
// The seed also draws the heartbeat period (from T/12 to 3T/10), the number of ticks in T (from 2 to 16), and the latency of
// frames: "beat" and "away" in a plan's text. In one plan of 64, c0 holds more locks than one heartbeat checks. In one of eight
// ("watches"), a client needs several packets to set its watches again, and the connection fails between two of them. In one of
// nine, processes are members that divide partitions. In one of 32 ("keeper"), each connection begins another session, as in
// ClickHouse Keeper. For 24 plans there is one lease plan (NewLeasePlan), with replicas of a lock service, callers that repeat,
// duplicate and abandon requests on a clock slower by 1/64, and clients of the library in the same queues.
//
// # What is checked
//
// Each run ends with all faults healed, a round in which every running process must acquire every lock, and a quiet period. No
// client may then have an outstanding node, no session may have created a node unless its client knows the session, and no
// goroutine may be left when everything is closed.
//
// # Pauses
//
// A simulated pause holds back the frames of the process's link in both directions, and stops its workers and watchers before
// their next action or event. A pause between two steps of the recipes is not simulated: the runs on real servers stop real
// processes.
package simulation
