// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package worker is the process that contends for locks and elections in a torture. [Run] contends with this library,
// [RunWith] with any other: what they ask for, how long they hold it, what they write meanwhile and what they report is the
// same with each. The harness, package torture, starts worker processes, reads what they report, and injects faults into them.
// The two share no memory; what they have in common is on this page.
//
// # A worker of your own
//
// Any program can be a worker process. It finds its [Spec] in the environment variable [SpecVariable]. It writes one event a
// line to its standard output, in the JSON of package history, without delay, and with At counted from Spec.Began by
// CLOCK_MONOTONIC. It honours Spec.Visit, and obeys the commands [Stop], [Rest], [Keep] and [Cancel] on its standard
// input. It ends with status 0 after Stop, and immediately when its standard input ends.
//
// The protocol is not that of package contender, by which a test commands each step of a contender: a worker draws its operations
// itself, and each event needs its instant, which only the worker can know.
//
// It reports Asked before it asks, Granted or Failed when it was answered, Told when it knows that it does not hold any more,
// Releasing and Released around its release, and Paused and Woke by its own clock thread. A Note is a failure of the worker
// itself. Attempts are numbered from Spec.First. To write, it sends "PATH CONTENDER ATTEMPT TOKEN" and a newline to
// Spec.Register, and reads "accepted" or "refused": package torture/register has the other end, and a client.
package worker
