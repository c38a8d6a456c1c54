// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var clientGo = library{name: "client-go `leaderelection`", short: "client-go", module: "k8s.io/client-go"}

var ofClientGo = []bug{
	{
		library: &clientGo, number: "1187", report: "https://github.com/kubernetes/client-go/issues/1187",
		wrong:  "`OnStoppedLeading` is called for a candidate that never led; documented",
		here:   "`Run` calls only its work; `election/clientgo` behaves like client-go",
		theirs: clientGoStopsWithoutLeading, ours: candidateThatNeverLedCallsNothing,
	},
	{
		library: &clientGo, number: "139991", report: "https://github.com/kubernetes/kubernetes/pull/139991",
		wrong:  "`ReleaseOnCancel` releases the lease while `OnStartedLeading` still works; documented",
		here:   "`Run` resigns after the work",
		theirs: clientGoReleasesBeforeTheWorkEnds, ours: runResignsAfterTheWork,
	},
	{
		library: &clientGo, number: "1155", report: "https://github.com/kubernetes/client-go/issues/1155",
		wrong:  "`Run` ends with a lost term; documented",
		here:   "`Run` campaigns again",
		theirs: clientGoRunsOneTerm, ours: runCampaignsAgain,
	},
}

// A lease is the record of an election as an API server stores it, without conflicts.
type lease struct {
	mu     sync.Mutex // guards what follows
	record *resourcelock.LeaderElectionRecord
	down   bool // no request is answered
}

var errDown = errors.New("connection refused")

func (l *lease) setDown(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// A leaseLock is one candidate's access to the lease.
type leaseLock struct {
	*lease
	id string
}

func (l leaseLock) Identity() string   { return l.id }
func (l leaseLock) Describe() string   { return "lease" }
func (l leaseLock) RecordEvent(string) {}

func (l leaseLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.down:
		return nil, nil, errDown
	case l.record == nil:
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "lease")
	}
	record := *l.record
	raw, err := json.Marshal(record)
	return &record, raw, err
}

func (l leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l leaseLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return errDown
	}
	l.record = &record
	return nil
}

// calls counts the calls of callbacks.
type calls struct {
	mu               sync.Mutex // guards what follows
	started, stopped int
	working          int // calls of work that have not returned
}

func (c *calls) count(add func(*calls)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	add(c)
}

func (c *calls) get() (started, stopped, working int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.started, c.stopped, c.working
}

// work runs until its context is done, and a while longer.
func (c *calls) work(ctx context.Context) {
	c.count(func(c *calls) { c.started++; c.working++ })
	defer c.count(func(c *calls) { c.working-- })
	<-ctx.Done()
	time.Sleep(timeout / 2)
}

// runElector starts a candidate with the times of client-go's documentation. It returns the calls of its callbacks, and a
// channel that is closed when Run has returned.
func runElector(ctx context.Context, t *testing.T, l *lease, id string) (*calls, <-chan struct{}) {
	t.Helper()
	c, done := &calls{}, make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: leaseLock{l, id}, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true, Name: id,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: c.work,
			OnStoppedLeading: func() { c.count(func(c *calls) { c.stopped++ }) },
		},
	})
	require.NoError(t, err)
	go func() {
		defer close(done)
		elector.Run(logr.NewContext(ctx, logr.Discard()))
	}()
	t.Cleanup(func() { // Run does not wait for the work
		<-done
		time.Sleep(timeout)
	})
	return c, done
}

func clientGoStopsWithoutLeading(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := &lease{}
		runElector(t.Context(), t, l, "a")
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		candidate, done := runElector(ctx, t, l, "b")
		time.Sleep(time.Minute)
		cancel()
		<-done
		started, stopped, _ := candidate.get()
		require.Zero(t, started)
		require.Equal(t, 1, stopped)
	})
}

// run starts a candidate of ours. It returns the calls of its work, and a channel with the result of Run.
func (s servers) run(ctx context.Context) (*calls, <-chan error, *zktest.Link) {
	s.Helper()
	e, link := s.election()
	c, result := &calls{}, make(chan error, 1)
	go func() {
		result <- e.Run(ctx, func(ctx context.Context, _ *election.Term) error {
			c.work(ctx)
			return nil
		})
	}()
	return c, result, link
}

func candidateThatNeverLedCallsNothing(t *testing.T) {
	bubble(t, func(s servers) {
		ctx, cancel := context.WithCancel(s.Context())
		_, leads, _ := s.run(ctx)
		soon()
		other, leave := context.WithCancel(s.Context())
		candidate, left, _ := s.run(other)
		time.Sleep(time.Minute)
		leave()
		require.NoError(s, <-left)
		started, _, _ := candidate.get()
		require.Zero(s, started)
		cancel()
		require.NoError(s, <-leads)
	})
}

func clientGoReleasesBeforeTheWorkEnds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := &lease{}
		ctx, cancel := context.WithCancel(t.Context())
		former, done := runElector(ctx, t, l, "a")
		time.Sleep(time.Minute)
		next, _ := runElector(t.Context(), t, l, "b")
		time.Sleep(time.Minute)
		cancel()
		<-done
		for {
			_, _, working := former.get()
			started, _, _ := next.get()
			require.Equal(t, 1, working, "the former leader's work has ended before the next one began")
			if started == 1 {
				return // both work
			}
			time.Sleep(timeout / 100)
		}
	})
}

func runResignsAfterTheWork(t *testing.T) {
	bubble(t, func(s servers) {
		ctx, cancel := context.WithCancel(s.Context())
		former, ended, _ := s.run(ctx)
		soon()
		other, stop := context.WithCancel(s.Context())
		next, stopped, _ := s.run(other)
		time.Sleep(time.Minute)
		cancel()
		for started := 0; started == 0; time.Sleep(timeout / 100) {
			_, _, working := former.get()
			if started, _, _ = next.get(); started != 0 {
				require.Zero(s, working, "the former leader's work has returned")
			}
		}
		require.NoError(s, <-ended)
		stop()
		require.NoError(s, <-stopped)
	})
}

func clientGoRunsOneTerm(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := &lease{}
		candidate, done := runElector(t.Context(), t, l, "a")
		time.Sleep(time.Minute)
		l.setDown(true)
		<-done
		l.setDown(false)
		time.Sleep(time.Hour)
		started, _, working := candidate.get()
		require.Equal(t, 1, started)
		require.Zero(t, working, "the election has no leader")
	})
}

func runCampaignsAgain(t *testing.T) {
	bubble(t, func(s servers) {
		ctx, cancel := context.WithCancel(s.Context())
		candidate, ended, link := s.run(ctx)
		time.Sleep(time.Minute)
		link.Hold(zktest.Both)
		time.Sleep(time.Minute)
		_, _, working := candidate.get()
		require.Zero(s, working)
		link.Reset()
		link.Release()
		time.Sleep(time.Minute)
		started, _, working := candidate.get()
		require.Equal(s, 2, started)
		require.Equal(s, 1, working)
		cancel()
		require.NoError(s, <-ended)
	})
}
