// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package worker is the process that contends for locks and elections in a torture run. [Run] contends with this library, or
// through the lock service; [RunWith] with any other library.
//
// # Other worker programs
//
// Any program can be a worker process. Its [Spec] is in the environment variable [SpecVariable]. It writes one event a line to
// its standard output, in the JSON of package history, without delay; At is CLOCK_MONOTONIC minus Spec.Began. It implements
// Spec.Probe, Spec.Service if the run has a lock service, and the commands [Stop], [Close], [Avoid], [Extend] and [Cancel], which it
// reads from its standard input. It reports Stopped after Stop, ends with status 0 after Close, and immediately when its standard
// input ends.
//
// It reports Asked before a request; Granted or Failed when the request returns; Notified when it has learned that it no longer
// holds; Releasing and Released around its release; Paused and Woke from its own clock thread. A Note reports a failure of the
// worker itself. Attempts are numbered from Spec.First. To write, it sends "PATH CONTENDER ATTEMPT TOKEN" and a newline to
// Spec.Register, and reads "accepted" or "refused": see package proof/torture/register.
package worker
