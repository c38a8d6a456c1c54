// SPDX-License-Identifier: Apache-2.0

package group_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout = 4 * time.Second
	path    = "/brokers"
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

// A process is a client with its own link to the servers, and its group.
type process struct {
	*group.Group
	servers servers
	client  *recipes.Client
	link    *zktest.Link
}

func (s servers) process() *process {
	s.Helper()
	link := s.Link()
	link.Delay(time.Millisecond)
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	g, err := group.New(client, path, nil)
	require.NoError(s, err)
	return &process{g, s, client, link}
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

func (p *process) join(id, metadata string) *group.Membership {
	p.servers.Helper()
	m, err := p.Join(p.servers.Context(), id, []byte(metadata))
	p.servers.must(err)
	return m
}

func (p *process) members() group.Snapshot {
	p.servers.Helper()
	snapshot, err := p.Members(p.servers.Context())
	p.servers.must(err)
	return snapshot
}

// names returns each member as id=metadata.
func names(members []group.Member) []string {
	list := make([]string, 0, len(members))
	for _, m := range members {
		list = append(list, m.ID+"="+string(m.Metadata))
	}
	return list
}

// A follower receives the changes of an Observe.
type follower struct {
	changes chan group.Change
	ended   chan error
}

// follow follows the group until ctx is done.
func (p *process) follow(ctx context.Context) *follower {
	f := &follower{make(chan group.Change, 10_000), make(chan error, 1)}
	go func() {
		for change, err := range p.Observe(ctx) {
			if err != nil {
				f.ended <- err
				return
			}
			f.changes <- change
		}
	}()
	return f
}

// requireNext requires that the next change is this one: the ids that joined, left and were updated.
func (f *follower) requireNext(s servers, joined, left, updated []string) group.Change {
	s.Helper()
	select {
	case c := <-f.changes:
		require.Equal(s, joined, ids(c.Joined), "joined")
		require.Equal(s, left, ids(c.Left), "left")
		require.Equal(s, updated, ids(c.Updated), "updated")
		return c
	case err := <-f.ended:
		require.NoError(s, err)
	case <-time.After(10 * timeout):
		require.Fail(s, "no change")
	}
	return group.Change{}
}

func ids(members []group.Member) []string {
	var list []string
	for _, m := range members {
		list = append(list, m.ID)
	}
	return slices.Clip(list)
}
