// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"path"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/holds"
	"github.com/lockkeeper/lockkeeper/trace/promtrace"
)

// sweeper is the label "path" of the only claim that a replica has. The alerts on long holds and waits except elections.
const sweeper = "election/sweeper"

// newHolds returns the table of leases, and registers what it shows.
func newHolds(c *Config, registry *prometheus.Registry) *holds.Table {
	held := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "lockkeeper_service_hold_seconds", Help: "Time from the grant of a lease to its end, of leases both of which this replica has seen.",
		Buckets: []float64{.01, .05, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400},
	}, []string{"kind"})
	for _, kind := range kinds {
		held.WithLabelValues(kind)
	}
	table := holds.New(c.Logger, func(d time.Duration, election bool) {
		held.WithLabelValues(kindOf(election)).Observe(d.Seconds())
	})
	registry.MustRegister(held, holdsCollector{table})
	return table
}

// kinds are the values of the label kind.
var kinds = []string{"lock", "election"}

func kindOf(election bool) string {
	if election {
		return kinds[1]
	}
	return kinds[0]
}

// A holdsCollector reads the table once for each scrape.
type holdsCollector struct{ table *holds.Table }

var (
	leasesDesc  = prometheus.NewDesc("lockkeeper_service_leases", "Leases that this replica has granted or renewed last, as far as it knows, and that have not ended.", []string{"kind"}, nil)
	ownersDesc  = prometheus.NewDesc("lockkeeper_service_sessions", "Owners of these leases, each a principal with an ownerId.", nil, nil)
	overdueDesc = prometheus.NewDesc("lockkeeper_service_overdue_leases", "Leases of locks that have been held far longer than their lock usually is. The log names them.", nil, nil)
)

// Describe sends the descriptions.
func (h holdsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{leasesDesc, ownersDesc, overdueDesc} {
		out <- d
	}
}

// Collect sends the gauges.
func (h holdsCollector) Collect(out chan<- prometheus.Metric) {
	counts := h.table.Count()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(leasesDesc, counts.Locks, kindOf(false))
	gauge(leasesDesc, counts.Elections, kindOf(true))
	gauge(ownersDesc, counts.Owners)
	gauge(overdueDesc, counts.Overdue)
}

// connect connects to the ensemble. It registers the metrics of the process and of the client, and audits and counts what
// the client deletes as an observer.
func connect(ctx context.Context, c *Config, f *files, table *holds.Table, registry *prometheus.Registry) (*recipes.Client, error) {
	expiries := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockkeeper_service_expiries_total", Help: "Leases and waiters that this replica has deleted, because they were not renewed in time.",
	})
	metrics := promtrace.New(&promtrace.Options{Path: func(string) string { return sweeper }})
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics, expiries,
	)
	trace := metrics.Trace()
	trace.Expired = func(e recipes.QueueEvent) {
		expiries.Inc()
		table.Ended(path.Base(e.Node))
		f.auditExpiry(c, e.Node)
	}
	client, err := recipes.Connect(ctx, c.Servers, &recipes.Options{
		SessionTimeout: c.SessionTimeout, Auth: f.auth, TLS: c.ZooKeeperTLS, Logger: c.Logger, Trace: trace,
	})
	if err == nil {
		metrics.SetClient(client)
	}
	return client, err
}
