// SPDX-License-Identifier: Apache-2.0

package assign_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout = 4 * time.Second
	path    = "/assign"
	settled = 3 * time.Second // RebalanceWait and the time to write, read and claim
)

// servers are an ensemble in a bubble of fake time. They record the work of all members, and fail the test if the work of two members on one
// partition overlaps, unless a session of one of them was cut off from the servers, or if a token does not rise.
type servers struct {
	*testing.T
	*zktest.Ensemble
	mu     *sync.Mutex // guards what the pointers and maps below lead to
	owners map[string]string
	tokens map[string]fencing.Token
	begun  map[string]int // calls of work, by partition
	errors *[]string
}

func bubble(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		s := servers{t, ensemble, new(sync.Mutex), map[string]string{}, map[string]fencing.Token{}, map[string]int{}, new([]string)}
		f(s)
		require.Empty(t, *s.errors)
	})
}

// A member is a client with its own link to the servers, and its Assign.
type member struct {
	*assign.Assign
	servers servers
	id      string
	client  *recipes.Client
	link    *zktest.Link
	stop    context.CancelFunc
	result  chan error
	logged  *lines
}

// lines are what a member has logged.
type lines struct {
	mu  sync.Mutex // guards all
	all []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(p))
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.all)
}

// connect returns a member that does not run.
func (s servers) connect(id string, opts assign.Options) *member {
	s.Helper()
	link := s.Link()
	link.Delay(time.Millisecond)
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	m := &member{servers: s, id: id, client: client, link: link, result: make(chan error, 1), logged: &lines{}}
	opts.ID = id
	opts.Logger = cmp.Or(opts.Logger, slog.New(slog.NewTextHandler(m.logged, nil)))
	m.Assign, err = assign.New(client, path, &opts)
	require.NoError(s, err)
	return m
}

// start returns a member that runs work until its context is done.
func (s servers) start(id string, opts assign.Options) *member {
	m := s.connect(id, opts)
	m.run(untilDone)
	return m
}

func untilDone(ctx context.Context, _ *assign.Ownership) error {
	<-ctx.Done()
	return nil
}

// run runs work, which is recorded.
func (m *member) run(work func(ctx context.Context, o *assign.Ownership) error) {
	ctx, stop := context.WithCancel(m.servers.Context())
	m.stop = stop
	m.servers.Cleanup(stop)
	go func() {
		m.result <- m.Run(ctx, func(ctx context.Context, o *assign.Ownership) error {
			defer m.servers.record(m.id, o)()
			return work(ctx, o)
		})
	}()
}

// record records that work begins, and by its result that it has returned.
func (s servers) record(id string, o *assign.Ownership) (returned func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[o.Partition()]++
	if other := s.owners[o.Partition()]; other != "" {
		*s.errors = append(*s.errors, fmt.Sprintf("%s: %s and %s", o.Partition(), other, id))
	}
	if o.Token() <= s.tokens[o.Partition()] {
		*s.errors = append(*s.errors, fmt.Sprintf("%s: token %d after %d", o.Partition(), o.Token(), s.tokens[o.Partition()]))
	}
	s.owners[o.Partition()], s.tokens[o.Partition()] = id, o.Token()
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.owners, o.Partition())
	}
}

// now returns the member whose work runs for each partition.
func (s servers) now() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.owners)
}

// calls returns how often work has begun for each partition.
func (s servers) calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.begun)
}

// counts returns how many partitions each member works for.
func (s servers) counts() map[string]int {
	counts := map[string]int{}
	for _, id := range s.now() {
		counts[id]++
	}
	return counts
}

// mustStop ends Run, and requires that it returns nil.
func (m *member) mustStop() {
	m.servers.Helper()
	m.stop()
	require.NoError(m.servers, <-m.result, m.id)
	require.Empty(m.servers, m.Owned())
}

// stopAll stops the members at the same time.
func stopAll(members ...*member) {
	for _, m := range members {
		m.stop()
	}
	for _, m := range members {
		m.mustStop()
	}
}

// names returns the partitions of ownerships.
func names(owned []*assign.Ownership) []string {
	list := make([]string, 0, len(owned))
	for _, o := range owned {
		list = append(list, o.Partition())
	}
	return list
}

// of returns the partitions that a member works for, sorted.
func of(owners map[string]string, id string) (list []string) {
	for p, owner := range owners {
		if owner == id {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

func (s servers) must(err error) {
	s.Helper()
	require.NoError(s, err)
}

// expire ends the session of a member, as its servers do after an outage.
func (s servers) expire(m *member) {
	s.Helper()
	s.must(s.Expire(s.Context(), m.client.SessionID()))
}

// put writes a node, as an operator does.
func (s servers) put(path, data string) error {
	if _, _, err := s.Get(path); err != nil {
		return s.Create(path, []byte(data))
	}
	return s.Set(path, []byte(data))
}

// deleteAll deletes a node and the nodes below it, as an operator does.
func (s servers) deleteAll(path string) {
	s.Helper()
	children, err := s.Children(path)
	s.must(err)
	for _, name := range children {
		s.deleteAll(path + "/" + name)
	}
	s.must(s.Delete(path))
}
