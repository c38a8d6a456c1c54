// SPDX-License-Identifier: Apache-2.0

package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics have no label that a caller can choose: neither keys nor namespaces, owners or principals.
type metrics struct {
	requests    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	auditErrors prometheus.Counter
}

func newMetrics(a *API) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lockkeeper_requests_total", Help: "Requests that were answered, by operation, HTTP status and problem code.",
		}, []string{"operation", "status", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lockkeeper_request_duration_seconds", Help: "Time from the head of a request to the end of its answer; for acquires that wait, the wait too.",
			Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30},
		}, []string{"operation"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lockkeeper_requests_in_flight", Help: "Requests that are being answered, event streams among them.",
		}),
		auditErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lockkeeper_audit_errors_total", Help: "Audit events that could not be written.",
		}),
	}
	a.Registry.MustRegister(m.requests, m.duration, m.inFlight, m.auditErrors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockkeeper_waiters", Help: "Acquires that wait, and event streams.",
		}, func() float64 { return float64(a.limiter.Waiters()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lockkeeper_ready", Help: "1 if a quorum of the ZooKeeper ensemble answered recently.",
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
