// SPDX-License-Identifier: Apache-2.0

// Package schedule runs a job at most once per activation over all replicas of a service. The replicas elect a leader, and the
// leader stores each activation in ZooKeeper before it runs the job for it.
//
//	s, err := schedule.New(client, "/jobs/report", schedule.Every(time.Hour), nil)
//	…
//	err = s.Run(ctx, func(ctx context.Context, activation schedule.Activation) error {
//		return report(ctx, activation.Time, activation.Token())
//	})
//
// A job that fails is logged, and the same replica runs the next activation.
//
// An activation is an instant of the schedule, the same for all replicas: 12:00:00 UTC, 13:00:00 UTC. Each replica calls Run.
//
// # What it promises
//
// The job is never run for an activation that was run before, nor for an earlier one, on whichever replica. This depends on no
// clock, timeout or pause: the activation is stored in a transaction that checks the leader's own node and the activation stored
// before. It holds within one history of the ensemble, as long as only this package writes the node <path>-last.
//
// Activations are run one after the other, by one leader at a time. The job of the next leader can overlap the job of a leader that
// lost its term only as package election states: if the job continues after its context is done. A resource that must not
// be written by both checks the token of the [Activation].
//
// # What it does not promise
//
//   - An activation can be lost: by a crash between its store and the job, or by a job that fails. A job that must not miss
//     anything processes whatever is there since its last success.
//   - If several activations have passed, only the newest is run, if it is no older than [Options.MaxDelay].
//   - A run begins up to MaxDelay and the session timeout after its activation, by the clock of the leader. Two runs can therefore begin closer to each
//     other than their activations, by MaxDelay and the difference of two leaders' clocks.
//   - Each leader goes by its own wall clock. One whose clock is ahead runs an activation early, and the others then skip it. If
//     the clock was ahead by a year, no activation is run for a year: correct the clock, and write the
//     last activation into the node, as {"format":1,"activation":"2026-11-22T12:00:00Z"}.
//   - Where no activation is stored, at first and after an operator has deleted the node, a leader begins with the first activation
//     after its election. If the node is deleted, an activation can be run twice.
//
// With two schedules, as during a roll-out, an activation of either is run if it is later than the last one of both. A schedule is
// asked in UTC, whatever the zone of the host; one in another time zone names it.
//
// # The states of an activation
//
//	future  ────────►  due  ────────►  stored by a leader  ────────►  the job has run
//	                    │                      │
//	                    │ older than           │ crash, or the
//	                    │ MaxDelay, or a       │ term was lost
//	                    ▼ newer one is due     ▼
//	                  skipped                lost
//
// # What each failure does
//
// When the leader's session fails (see package recipes), the context of the job is cancelled, another replica is elected, and it
// runs the newest activation that was not stored, within MaxDelay: a minute by default, which outlasts a fail-over at a session timeout
// of 10 s.
//
//	failure                           to the activation that is due
//	────────────────────────────────  ─────────────────────────────────────────────────────────────────────────
//	leader killed before it stored    run by the next leader, within MaxDelay
//	leader killed after it stored     lost
//	reply of the store lost           the leader reads the node, which shows whose activation it is, and runs the job
//	                                  if the activation is its own and its term lasts
//	term lost while the reply is out  stored or not: the job is not run by this leader
//	leader paused                     run by the next leader; the paused one cannot store it. If it had stored it
//	                                  before the pause, it can run the job late, with an old token
//	ensemble down                     run when it is back, within MaxDelay
//	wall clock set back               skipped, until the clock has passed the last activation
//	job fails                         not run again: logged, and the leader runs the next activation
//
// # What it costs
//
// A run costs one read and one transaction, a term one read, and a replica what a candidate costs: docs/performance.md.
package schedule
