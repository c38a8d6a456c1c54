// SPDX-License-Identifier: Apache-2.0

package barrier_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/barrier"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout = 4 * time.Second
	path    = "/jobs/barrier"
)

// servers are an ensemble in a bubble of fake time.
type servers struct {
	*testing.T
	*zktest.Ensemble
}

func bubble(t *testing.T, opts zktest.Options, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		opts.InMemory, opts.Tick = true, timeout/4
		ensemble, err := zktest.Run(t.Context(), &opts)
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble})
	})
}

// A process is a client with its own link to the servers, and its barrier.
type process struct {
	*barrier.Barrier
	servers servers
	client  *recipes.Client
	link    *zktest.Link
}

// process connects a process that knows only these servers, or all if none is named.
func (s servers) process(addrs ...string) *process {
	s.Helper()
	return s.processWith(recipes.Options{}, addrs...)
}

// processWith is process with options of its client.
func (s servers) processWith(opts recipes.Options, addrs ...string) *process {
	s.Helper()
	if addrs == nil {
		addrs = s.Addrs()
	}
	link := s.Link()
	link.Delay(time.Millisecond)
	opts.SessionTimeout, opts.Dial, opts.Logger = timeout, link.Dial, slog.New(slog.DiscardHandler)
	client, err := recipes.Connect(s.Context(), addrs, &opts)
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	b, err := barrier.New(client, path, nil)
	require.NoError(s, err)
	return &process{b, s, client, link}
}

func (s servers) must(err error) {
	s.Helper()
	require.NoError(s, err)
}

func (s servers) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), d)
	s.Cleanup(cancel)
	return ctx
}

// background calls a function, and returns its error on the channel.
func background(f func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	return ended
}

// mustWait requires that the call has not returned once nothing moves any more.
func (s servers) mustWait(call <-chan error) {
	s.Helper()
	synctest.Wait()
	select {
	case err := <-call:
		require.Fail(s, "returned", "%v", err)
	default:
	}
}

// mustReturn requires that the call returns without an error.
func (s servers) mustReturn(call <-chan error) {
	s.Helper()
	select {
	case err := <-call:
		require.NoError(s, err)
	case <-time.After(10 * timeout):
		require.Fail(s, "not returned")
	}
}

func (p *process) double(n int) *barrier.Double {
	p.servers.Helper()
	d, err := barrier.NewDouble(p.client, path, n, nil)
	p.servers.must(err)
	return d
}

// An entering is a call of Enter that is under way.
type entering struct {
	servers servers
	round   chan *barrier.Round
	err     chan error
}

func (p *process) enter(ctx context.Context, n int) entering {
	d := p.double(n)
	e := entering{p.servers, make(chan *barrier.Round, 1), make(chan error, 1)}
	go func() {
		r, err := d.Enter(ctx)
		if err != nil {
			e.err <- err
			return
		}
		e.round <- r
	}()
	return e
}

// entered returns the round that the call has entered.
func (e entering) entered() *barrier.Round {
	e.servers.Helper()
	select {
	case r := <-e.round:
		return r
	case err := <-e.err:
		require.NoError(e.servers, err)
	case <-time.After(10 * timeout):
		require.Fail(e.servers, "not entered")
	}
	return nil
}

// mustWait requires that the call waits d long.
func (e entering) mustWait(d time.Duration) {
	e.servers.Helper()
	select {
	case r := <-e.round:
		require.Fail(e.servers, "entered", "round %d", r.Number())
	case err := <-e.err:
		require.NoError(e.servers, err)
	case <-time.After(d):
	}
}

// leave calls Leave in the background.
func leave(r *barrier.Round) <-chan error {
	return background(func() error { return r.Leave(context.Background()) })
}
