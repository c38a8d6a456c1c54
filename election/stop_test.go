// SPDX-License-Identifier: Apache-2.0

package election_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// servers is an ensemble in a synctest bubble, which has a fake clock.
type servers struct {
	*testing.T
	*zktest.Ensemble
}

const (
	timeout = 10 * time.Second
	path    = "/election/controller"
)

func bubble(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		f(servers{t, ensemble})
	})
}

// A candidate is an election of its own client, and the link of that client to the servers.
type candidate struct {
	*election.Election
	client *recipes.Client
	link   *zktest.Link
}

func (s servers) candidate(opts election.Options) *candidate {
	s.Helper()
	link := s.Link()
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	e, err := election.New(client, path, &opts)
	require.NoError(s, err)
	return &candidate{e, client, link}
}

func (s servers) nodes() []string {
	s.Helper()
	nodes, err := s.Children(path)
	require.NoError(s, err)
	return nodes
}

// A background is a Run in a goroutine.
type background struct {
	stop   context.CancelFunc
	result chan error
	leads  chan struct{} // receives a value when a term begins
}

func (s servers) run(c *candidate, work func(ctx context.Context, term *election.Term) error) *background {
	ctx, stop := context.WithCancel(s.Context())
	r := &background{stop: stop, result: make(chan error, 1), leads: make(chan struct{}, 100)}
	go func() {
		r.result <- c.Run(ctx, func(ctx context.Context, term *election.Term) error {
			r.leads <- struct{}{}
			return work(ctx, term)
		})
	}()
	return r
}

// untilDone is work that returns when its context is done.
func untilDone(ctx context.Context, _ *election.Term) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestRunReturnsNilWhenItsContextEndsAndAllNodesAreReleased(t *testing.T) {
	t.Run("while it leads", func(t *testing.T) {
		bubble(t, func(s servers) {
			r := s.run(s.candidate(election.Options{}), untilDone)
			<-r.leads
			r.stop()
			require.NoError(s, <-r.result)
			require.Empty(s, s.nodes())
		})
	})
	t.Run("while it waits", func(t *testing.T) {
		bubble(t, func(s servers) {
			first := s.run(s.candidate(election.Options{}), untilDone)
			<-first.leads
			r := s.run(s.candidate(election.Options{}), untilDone)
			synctest.Wait()
			require.Len(s, s.nodes(), 2)
			r.stop()
			require.NoError(s, <-r.result)
			require.Len(s, s.nodes(), 1)
			first.stop()
			require.NoError(s, <-first.result)
		})
	})
	t.Run("while other Runs of its client stop", func(t *testing.T) {
		bubble(t, func(s servers) {
			c := s.candidate(election.Options{})
			c.link.Delay(10 * time.Millisecond)
			var candidates []*background
			for range 4 {
				candidates = append(candidates, s.run(c, untilDone))
			}
			time.Sleep(time.Second)
			require.Len(s, s.nodes(), 4)
			for _, r := range candidates {
				r.stop()
			}
			for _, r := range candidates {
				require.NoError(s, <-r.result)
			}
			require.Empty(s, s.nodes())
		})
	})
	t.Run("while it cools down", func(t *testing.T) {
		bubble(t, func(s servers) {
			r := s.run(s.candidate(election.Options{CoolDown: time.Hour}), func(context.Context, *election.Term) error { return nil })
			<-r.leads
			synctest.Wait()
			r.stop()
			require.NoError(s, <-r.result)
			require.Empty(s, s.nodes())
		})
	})
	t.Run("before it begins", func(t *testing.T) {
		bubble(t, func(s servers) {
			ctx, cancel := context.WithCancelCause(s.Context())
			cancel(io.EOF)
			require.NoError(s, s.candidate(election.Options{}).Run(ctx, untilDone))
		})
	})
	t.Run("after its term was lost", func(t *testing.T) {
		bubble(t, func(s servers) {
			c := s.candidate(election.Options{CoolDown: time.Hour})
			c.link.Delay(100 * time.Millisecond)
			session := c.client.SessionID()
			finish := make(chan struct{})
			r := s.run(c, func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				<-finish
				return context.Cause(ctx)
			})
			<-r.leads
			c.link.Refuse(true)
			c.link.Reset()
			time.Sleep(timeout * 3 / 4) // the deadline of the term has passed, the session lives
			c.link.Refuse(false)
			time.Sleep(timeout / 8) // the session is attached again, and the node is kept while the work stops
			require.Len(s, s.nodes(), 1)
			r.stop()
			close(finish)
			require.NoError(s, <-r.result)
			require.Empty(s, s.nodes())
			require.Equal(s, session, c.client.SessionID())
		})
	})
}

func TestErrorOfWorkIsReturnedWhenContextEnds(t *testing.T) {
	for _, c := range []struct {
		err      error
		returned bool
	}{
		{nil, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{io.EOF, true},
		{errors.Join(recipes.ErrUncertain, context.Canceled), true}, // from a Commit that was interrupted
	} {
		bubble(t, func(s servers) {
			r := s.run(s.candidate(election.Options{}), func(ctx context.Context, _ *election.Term) error {
				<-ctx.Done()
				return c.err
			})
			<-r.leads
			r.stop()
			err := <-r.result
			if c.returned {
				require.ErrorIs(s, err, c.err)
			} else {
				require.NoError(s, err)
			}
		})
	}
}

func TestRunReturnsWithinItsBoundsAndNamesUnreleasedNodesWhileNoServerAnswers(t *testing.T) {
	const stop, resign = 6 * time.Second, 3 * time.Second
	opts := election.Options{StopTimeout: stop, ReleaseTimeout: resign}
	// Each outage makes all servers unreachable for one client.
	for name, outage := range map[string]func(*zktest.Link){
		"mute":    func(l *zktest.Link) { l.Hold(zktest.Both) },
		"refused": func(l *zktest.Link) { l.Refuse(true); l.Reset() },
	} {
		t.Run(name+" while it leads", func(t *testing.T) {
			bubble(t, func(s servers) {
				c := s.candidate(opts)
				const stopping = 2 * time.Second // the time that the work takes to stop
				r := s.run(c, func(ctx context.Context, _ *election.Term) error {
					<-ctx.Done()
					time.Sleep(stopping)
					return nil
				})
				<-r.leads
				time.Sleep(timeout)
				outage(c.link)
				began := time.Now()
				r.stop()
				err := <-r.result
				require.ErrorIs(s, err, recipes.ErrUncertain)
				require.ErrorContains(s, err, path)
				require.LessOrEqual(s, time.Since(began), stopping+resign)
			})
		})
		t.Run(name+" while it waits", func(t *testing.T) {
			bubble(t, func(s servers) {
				first := s.run(s.candidate(election.Options{}), untilDone)
				<-first.leads
				c := s.candidate(opts)
				r := s.run(c, untilDone)
				time.Sleep(timeout)
				outage(c.link)
				began := time.Now()
				r.stop()
				err := <-r.result
				require.ErrorIs(s, err, recipes.ErrUncertain)
				require.ErrorContains(s, err, path)
				require.LessOrEqual(s, time.Since(began), timeout*3/8+resign)
				first.stop()
				require.NoError(s, <-first.result)
			})
		})
		t.Run(name+" after its term was lost", func(t *testing.T) {
			bubble(t, func(s servers) {
				c := s.candidate(opts)
				r := s.run(c, untilDone)
				<-r.leads
				time.Sleep(timeout)
				outage(c.link)
				time.Sleep(timeout)
				began := time.Now()
				r.stop()
				err := <-r.result
				require.ErrorIs(s, err, recipes.ErrUncertain)
				require.LessOrEqual(s, time.Since(began), resign)
			})
		})
		t.Run(name+" and the work does not stop", func(t *testing.T) {
			bubble(t, func(s servers) {
				c := s.candidate(opts)
				release := make(chan struct{})
				defer close(release)
				r := s.run(c, func(context.Context, *election.Term) error {
					<-release
					return nil
				})
				<-r.leads
				outage(c.link)
				began := time.Now()
				r.stop()
				require.ErrorIs(s, <-r.result, election.ErrOverrun)
				require.Equal(s, stop, time.Since(began))
			})
		})
	}
}
