// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/promtrace"
)

// sweeper is the label "path" of the only claim that a replica has. The alerts on long holds and waits except elections.
const sweeper = "election/sweeper"

// connect connects to the ensemble. It registers the metrics of the process and of the client, and audits and counts what
// the client deletes as an observer.
func connect(ctx context.Context, c *Config, f *files, registry *prometheus.Registry) (*recipes.Client, error) {
	expiries := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "lockkeeper_service_expiries_total", Help: "Leases and waiters that this replica has deleted, because they were not renewed in time.",
	})
	metrics := promtrace.New(&promtrace.Options{Path: func(string) string { return sweeper }})
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics, expiries,
	)
	trace := metrics.Trace()
	trace.Expired = func(node string) {
		expiries.Inc()
		f.auditExpiry(c, node)
	}
	client, err := recipes.Connect(ctx, c.Servers, &recipes.Options{
		SessionTimeout: c.SessionTimeout, Auth: f.auth, TLS: c.ZooKeeperTLS, Logger: c.Logger, Trace: trace,
	})
	if err == nil {
		metrics.SetClient(client)
	}
	return client, err
}
