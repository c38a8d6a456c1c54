// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/schedule"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout  = 4 * time.Second
	path     = "/jobs/report"
	lastPath = path + "-last"
)

// servers are an ensemble in a bubble of fake time, which begins at a full minute, and the runs of the replicas.
type servers struct {
	*testing.T
	*zktest.Ensemble
	began time.Time
	runs  *runs
}

func bubble(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble, time.Now(), &runs{}})
	})
}

// runs are the runs of a job, in order.
type runs struct {
	mu  sync.Mutex // guards all
	all []run
}

// A run is an activation, which replica ran it, and when.
type run struct {
	replica    string
	activation schedule.Activation
	at         time.Time
}

func (r *runs) add(replica string, activation schedule.Activation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, run{replica, activation, time.Now()})
}

// minutes returns the activations that were run, in minutes since the bubble began.
func (s servers) minutes() (minutes []float64) {
	for _, r := range s.list() {
		minutes = append(minutes, r.activation.Time.Sub(s.began).Minutes())
	}
	return minutes
}

func (s servers) list() []run {
	s.runs.mu.Lock()
	defer s.runs.mu.Unlock()
	return append([]run(nil), s.runs.all...)
}

// sleepUntil sleeps until an instant, given as the time since the bubble began.
func (s servers) sleepUntil(d time.Duration) { time.Sleep(time.Until(s.began.Add(d))) }

// A replica is a client with its own link to the servers, and its scheduler with an activation each minute.
type replica struct {
	*schedule.Scheduler
	servers servers
	name    string
	link    *zktest.Link
	client  *recipes.Client
	stop    context.CancelFunc
	ended   chan error
}

// connect starts a replica, and does not run it.
func (s servers) connect(name string, opts *schedule.Options) *replica {
	s.Helper()
	link := s.Link()
	link.Delay(time.Millisecond)
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	if opts == nil {
		opts = &schedule.Options{}
	}
	opts.Election.Owner = name
	scheduler, err := schedule.New(client, path, schedule.Every(time.Minute), opts)
	require.NoError(s, err)
	return &replica{Scheduler: scheduler, servers: s, name: name, link: link, client: client}
}

// run runs the replica until its stop is called. job is called after the run was noted, and may be nil.
func (r *replica) run(job func(context.Context, schedule.Activation) error) {
	ctx, cancel := context.WithCancel(r.servers.Context())
	r.stop, r.ended = cancel, make(chan error, 1)
	r.servers.Cleanup(cancel)
	go func() {
		r.ended <- r.Run(ctx, func(ctx context.Context, activation schedule.Activation) error {
			r.servers.runs.add(r.name, activation)
			if job == nil {
				return nil
			}
			return job(ctx, activation)
		})
	}()
	time.Sleep(100 * time.Millisecond) // until it is a candidate
}

// mustStop stops the replica, and requires that Run ends without an error.
func (r *replica) mustStop() {
	r.servers.Helper()
	r.stop()
	require.NoError(r.servers, <-r.ended)
}

// reconnect ends the partition of a replica, and waits until it is a candidate again.
func (r *replica) reconnect() {
	r.link.Release()
	time.Sleep(4 * timeout)
}

// start is connect and run with a job that does nothing.
func (s servers) start(name string) *replica {
	s.Helper()
	r := s.connect(name, nil)
	r.run(nil)
	return r
}
