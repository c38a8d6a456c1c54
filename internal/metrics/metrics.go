// SPDX-License-Identifier: Apache-2.0

// Package metrics defines the metrics of a client. Adapters to metric systems create one instrument
// for each, and receive the values from [Trace] and [Read]. So all systems have the same metrics.
package metrics

// A Kind is the kind of a metric's instrument.
type Kind int

// The kinds of metrics.
const (
	Counter Kind = iota
	Histogram
	Gauge
	ReadCounter // a counter whose value comes from Read
)

// The units of metrics.
const (
	Seconds = "s"
	Ratio   = "1"
	Count   = ""
)

// A Metric is one metric of a client.
type Metric struct {
	Name    string // without the prefix "lockkeeper", and without the unit if that is seconds
	Kind    Kind
	Unit    string
	Labels  []string
	Help    string
	Buckets []float64 // upper bounds, of a Histogram
}

// The labels of metrics.
const (
	pathLabel  = "path"
	causeLabel = "cause"
	stateLabel = "state"
)

// The metrics of events.
var (
	Wait = &Metric{
		Name: "wait", Kind: Histogram, Unit: Seconds, Labels: []string{pathLabel},
		Help:    "Time from the call for a claim to its grant.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
	}
	WaitFailures = &Metric{
		Name: "wait_failures", Labels: []string{pathLabel, causeLabel},
		Help: "Calls for a claim that returned an error.",
	}
	QueueLength = &Metric{
		Name: "queue_length", Kind: Histogram, Labels: []string{pathLabel},
		Help:    "Contenders in the queue, also of other clients, whenever a contender of this client has joined.",
		Buckets: []float64{1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000, 5000},
	}
	Handoffs = &Metric{
		Name: "handoffs", Labels: []string{pathLabel},
		Help: "Grants to contenders that had waited for a predecessor.",
	}
	Hold = &Metric{
		Name: "hold", Kind: Histogram, Unit: Seconds, Labels: []string{pathLabel},
		Help:    "Time from a grant to the end of the claim.",
		Buckets: []float64{.001, .01, .1, 1, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400},
	}
	Losses = &Metric{
		Name: "losses", Labels: []string{pathLabel, causeLabel},
		Help: "Claims that ended other than by their holder.",
	}
	Unreleased = &Metric{
		Name: "unreleased", Labels: []string{pathLabel},
		Help: "Calls with a lock-delay or a fence function that found that the former holder did not release.",
	}
	Rejoins = &Metric{
		Name: "rejoins", Labels: []string{pathLabel, causeLabel},
		Help: "Waiters that joined again at the end of the queue.",
	}
	DeadlineLeft = &Metric{
		Name: "deadline_left_ratio", Kind: Histogram, Unit: Ratio,
		Help:    "Time left until the deadline of the claims when a proof of liveness arrived, as a fraction of the session timeout.",
		Buckets: []float64{.03125, .0625, .125, .1875, .25, .3125, .375, .4375, .5, .625},
	}
	Heartbeat = &Metric{
		Name: "heartbeat", Kind: Histogram, Unit: Seconds,
		Help:    "Time from a heartbeat to its answer.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}
	HeartbeatFailures = &Metric{Name: "heartbeat_failures", Help: "Heartbeats that failed."}
	Reconnects        = &Metric{Name: "reconnects", Help: "Connections that continued a session."}
	Outages           = &Metric{Name: "outages", Help: "Outages of at least a quarter of the session timeout, in which no server served the client."}
	SessionsEnded     = &Metric{Name: "sessions_ended", Labels: []string{causeLabel}, Help: "Sessions that are over."}
	DeletionFailures  = &Metric{Name: "deletion_failures", Help: "Failed attempts to delete a node."}
)

// The metrics of the client's state.
var (
	Ready          = &Metric{Name: "ready", Kind: Gauge, Help: "Whether the client can be used: 1 or 0."}
	Unguarded      = &Metric{Name: "unguarded", Kind: Gauge, Help: "Whether the guardian of the client has not acknowledged its session: 1 or 0."}
	SessionTimeout = &Metric{Name: "session_timeout", Kind: Gauge, Unit: Seconds, Help: "Session timeout that the servers granted."}
	Nodes          = &Metric{
		Name: "nodes", Kind: Gauge, Labels: []string{stateLabel},
		Help: "Nodes of the client that may exist, by state: joining, waiting, held, or deleting.",
	}
	Waiters    = &Metric{Name: "waiters", Kind: Gauge, Labels: []string{pathLabel}, Help: "Contenders of the client that wait."}
	Holds      = &Metric{Name: "holds", Kind: Gauge, Labels: []string{pathLabel}, Help: "Claims that the client holds."}
	OldestHold = &Metric{
		Name: "oldest_hold", Kind: Gauge, Unit: Seconds, Labels: []string{pathLabel},
		Help: "Time since the grant of the claim that the client has held longest.",
	}
	DroppedEvents = &Metric{Name: "dropped_events", Kind: ReadCounter, Help: "Events that the trace and the log have missed because they were too slow."}
)

// All are all metrics, in the order of their documentation.
var All = []*Metric{
	Wait, WaitFailures, QueueLength, Waiters, Handoffs,
	Hold, Holds, OldestHold, Losses, Unreleased, Rejoins,
	DeadlineLeft, Heartbeat, HeartbeatFailures,
	Ready, Unguarded, SessionTimeout, Reconnects, Outages, SessionsEnded,
	Nodes, DeletionFailures, DroppedEvents,
}
