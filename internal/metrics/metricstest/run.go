// SPDX-License-Identifier: Apache-2.0

// Package metricstest tests an adapter of package metrics: it shows that each metric changes when it
// should.
package metricstest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/metrics"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// An Adapter exports the metrics of one client.
type Adapter interface {
	Trace() *recipes.Trace
	SetClient(client *recipes.Client)
}

// Values are the values of series by Prometheus's name, with their labels in order:
// `lockkeeper_losses_total{cause="expired",path="/a"}`. A histogram has two, with the suffixes _count
// and _sum behind its name.
type Values map[string]float64

const timeout = 6 * time.Second

// A world is a client with an adapter, and another one without, on one server in fake time.
type world struct {
	*testing.T
	server    *zktest.Ensemble
	link      *zktest.Link // of client
	client    *recipes.Client
	other     *recipes.Client
	blockable chan struct{} // the client's trace blocks while another goroutine has its element
	read      func() Values
	first     Values
	moved     map[string]bool // the metrics that have changed, by Prometheus's name
}

// Run runs a client with the adapter on zktest through grants, waits, losses, outages and refused
// deletions. adapt returns an adapter, whose label "path" has the path, and a function that collects
// its values. Run fails the test if a series has another value than it should, or if one of
// metrics.All has never changed.
func Run(t *testing.T, adapt func() (Adapter, func() Values)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		server := zktest.Start(t, &zktest.Options{InMemory: true, Tick: timeout / 4, Logger: slog.New(slog.DiscardHandler)})
		adapter, read := adapt()
		w := &world{
			T: t, server: server, link: server.Link(), read: read, first: read(),
			blockable: make(chan struct{}, 1), moved: map[string]bool{},
		}
		w.blockable <- struct{}{}
		trace := adapter.Trace()
		heartbeat := trace.Heartbeat
		trace.Heartbeat = func(e recipes.SessionEvent) {
			<-w.blockable
			w.blockable <- struct{}{}
			heartbeat(e)
		}
		w.client = w.connect(&recipes.Options{Dial: w.link.Dial, Trace: trace})
		adapter.SetClient(w.client)
		w.other = w.connect(&recipes.Options{Dial: server.Dial})
		w.requires(Values{
			`lockkeeper_ready`: 1, `lockkeeper_session_timeout_seconds`: 6,
			`lockkeeper_outages_total`: 0, `lockkeeper_nodes{state="held"}`: 0,
		})
		w.handOver()
		w.failToWait()
		w.join()
		w.failToDelete()
		w.drop()
		w.reconnect()
		w.expire()
		w.outage()
		w.takeOver()
		w.client.Close()
		w.requires(Values{`lockkeeper_ready`: 0, `lockkeeper_sessions_ended_total{cause="closed"}`: 1})
		for _, m := range metrics.All {
			require.True(t, w.moved[Name(m)], "%s never changed", Name(m))
		}
	})
}

// Name returns the name of a metric by Prometheus's conventions.
func Name(m *metrics.Metric) string {
	name := "lockkeeper_" + m.Name
	if m.Unit == metrics.Seconds {
		name += "_seconds"
	}
	if m.Kind == metrics.Counter || m.Kind == metrics.ReadCounter {
		name += "_total"
	}
	return name
}

func (w *world) connect(opts *recipes.Options) *recipes.Client {
	w.Helper()
	opts.SessionTimeout, opts.Logger = timeout, slog.New(slog.DiscardHandler)
	client, err := recipes.Connect(w.Context(), w.server.Addrs(), opts)
	require.NoError(w, err)
	w.Cleanup(func() { client.Close() })
	return client
}

// requires waits until all goroutines are idle, and requires that these series have these values.
func (w *world) requires(want Values) Values {
	w.Helper()
	synctest.Wait()
	now := w.read()
	for series, value := range want {
		require.Contains(w, now, series)
		require.InDelta(w, value, now[series], 1e-6, series)
	}
	for series, value := range now {
		if before, existed := w.first[series]; !existed || before != value {
			name, _, _ := strings.Cut(series, "{")
			w.moved[name] = true
			w.moved[strings.TrimSuffix(name, "_count")] = true
		}
	}
	return now
}

func (w *world) queue(client *recipes.Client, path string) *queue.Queue {
	w.Helper()
	queue, err := queue.New(client, path, nil)
	require.NoError(w, err)
	return queue
}

// hold returns a function that releases a claim on path.
func (w *world) hold(client *recipes.Client, path string) (release func()) {
	w.Helper()
	queue := w.queue(client, path)
	claim, err := queue.Claim(w.Context())
	require.NoError(w, err)
	return func() { require.NoError(w, queue.Release(context.WithoutCancel(w.Context()), claim)) }
}

// wait starts a waiter on /a. The function that it returns waits for its grant, and releases it.
func (w *world) wait() (release func()) {
	w.Helper()
	queue := w.queue(w.client, "/a")
	granted := make(chan *recipes.Claim, 1)
	go func() { // ends with the grant, or with the test
		claim, _ := queue.Claim(w.Context())
		granted <- claim
	}()
	synctest.Wait()
	return func() {
		claim := <-granted
		require.NotNil(w, claim)
		require.NoError(w, queue.Release(w.Context(), claim))
	}
}

// onA returns the series of a metric for the path /a.
func onA(name string) string { return name + `{path="/a"}` }
