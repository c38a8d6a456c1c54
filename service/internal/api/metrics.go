// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockkeeper/lockkeeper/internal/lease"
)

// metrics have no label that a caller can choose: neither keys nor namespaces, owners or principals.
type metrics struct {
	requests     *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	grants       prometheus.Histogram
	inFlight     prometheus.Gauge
	actionErrors prometheus.Counter
	unlogged     prometheus.Counter
}

func newMetrics(a *API) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockkeeper_service_requests_total", Help: "Requests that were answered, by operation, HTTP status and problem code.",
		}, []string{"operation", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lockkeeper_service_request_duration_seconds", Help: "Time from the head of a request to the end of its answer; for acquires that wait, the wait too.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30},
		}, []string{"operation"}),
		grants: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lockkeeper_service_grant_duration_seconds", Help: "Time from the head of a request that was granted a lease to its answer, less the time in which other contenders were ahead.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockkeeper_service_requests_in_flight", Help: "Requests that are being answered, event streams among them.",
		}),
		actionErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockkeeper_service_action_errors_total", Help: "Administrative actions whose outcome could not be recorded in ZooKeeper.",
		}),
		unlogged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockkeeper_service_unlogged_requests_total", Help: "Refused requests that were not logged: one principal, or one address without valid credentials, sent too many.",
		}),
	}
	a.Registry.MustRegister(m.requests, m.duration, m.grants, m.inFlight, m.actionErrors, m.unlogged,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lockkeeper_service_audit_errors_total", Help: "Audit events that were not written, and will not be.",
		}, func() float64 { return float64(a.Audit.Lost()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockkeeper_service_audit_pending", Help: "Audit events that wait to be written.",
		}, func() float64 { return float64(a.Audit.Pending()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockkeeper_service_waiters", Help: "Acquires that wait, and event streams.",
		}, func() float64 { return float64(a.limiter.Waiters()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockkeeper_service_oldest_wait_seconds", Help: "Time since the oldest waiter for a lock that this replica serves has joined the queue, 0 without one.",
		}, func() float64 { return oldestWait(a.Locks.Waiters(), time.Now()).Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockkeeper_service_ready", Help: "1 if a quorum of the ZooKeeper ensemble answered recently.",
		}, func() float64 {
			if a.Ready() != nil {
				return 0
			}
			return 1
		}))
	return m
}

func (m *metrics) observe(operation string, status int, code string, took time.Duration) {
	if operation == "" {
		operation = "other"
	}
	m.requests.WithLabelValues(operation, strconv.Itoa(status), code).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
}

// shared returns f for any number of callers: one call of f runs at a time, and all callers that come while it runs share the next
// one.
func shared[T any](f func() (T, error)) func() (T, error) {
	type result struct {
		begun bool // guarded by the turn, as the other fields
		value T
		err   error
	}
	var (
		turn = make(chan struct{}, 1) // of the call that runs
		mu   sync.Mutex               // guards next
		next = &result{}              // of the call that begins next
	)
	return func() (T, error) {
		mu.Lock()
		mine := next
		mu.Unlock()
		turn <- struct{}{}
		defer func() { <-turn }()
		if !mine.begun {
			mine.begun = true
			mu.Lock()
			next = &result{}
			mu.Unlock()
			mine.value, mine.err = f()
		}
		return mine.value, mine.err
	}
}

// oldestWait returns for how long the oldest contender has waited. It ignores candidates of elections, which wait for as long
// as the leader lives.
func oldestWait(waiters []lease.Contender, now time.Time) (oldest time.Duration) {
	for _, w := range waiters {
		if _, campaigns := w.Lease.Metadata[valueName]; !campaigns {
			oldest = max(oldest, now.Sub(w.Since))
		}
	}
	return oldest
}

// valueName is the entry of a lease's metadata that holds the value which a leader publishes.
const valueName = "value"
