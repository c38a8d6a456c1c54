// SPDX-License-Identifier: Apache-2.0

package epoch_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const (
	timeout = 4 * time.Second
	path    = "/election/epoch"
	state   = "/state"
)

func init() { zk.DefaultLogger = log.New(io.Discard, "", 0) }

// steady is an age of a session at which no heartbeat or ping is due soon.
const steady = timeout * 13 / 12

// servers is an ensemble in a synctest bubble, which has a fake clock. Its node at state is written by leaders.
type servers struct {
	*testing.T
	*zktest.Ensemble
}

func bubble(t *testing.T, f func(s servers)) {
	t.Helper()
	faketime.Test(t, func(t *testing.T) {
		ensemble, err := zktest.Run(t.Context(), &zktest.Options{InMemory: true, Tick: timeout / 4})
		require.NoError(t, err)
		defer func() { require.NoError(t, ensemble.Close()) }()
		require.NoError(t, ensemble.Create(state, []byte("none")))
		f(servers{t, ensemble})
	})
}

// A candidate is a client with its own link to the servers, and its election and epochs.
type candidate struct {
	*recipes.Client
	servers  servers
	link     *zktest.Link
	election *election.Election
	epochs   *epoch.Epochs
}

func (s servers) candidate(id string) *candidate { return s.candidateAt(id, "/election/controller") }

// candidateAt returns a candidate of the election at that path.
func (s servers) candidateAt(id, at string) *candidate {
	s.Helper()
	c := &candidate{servers: s, link: s.Link()}
	c.link.Delay(time.Millisecond)
	c.Client = s.connect(c.link, "")
	var err error
	c.election, err = election.New(c.Client, at, &election.Options{Owner: id})
	require.NoError(s, err)
	c.epochs, err = epoch.New(c.Client, path, &epoch.Options{Owner: id})
	require.NoError(s, err)
	return c
}

func (s servers) connect(link *zktest.Link, namespace string) *recipes.Client {
	s.Helper()
	client, err := recipes.Connect(s.Context(), s.Addrs(), &recipes.Options{
		SessionTimeout: timeout, Dial: link.Dial, Namespace: namespace, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(s, err)
	s.Cleanup(func() { client.Close() })
	return client
}

func (c *candidate) campaign() *election.Term {
	c.servers.Helper()
	term, err := c.election.Campaign(c.servers.Context())
	require.NoError(c.servers, err)
	return term
}

// lead campaigns and claims an epoch.
func (c *candidate) lead() (*election.Term, *epoch.Epoch) {
	c.servers.Helper()
	term := c.campaign()
	e, err := c.epochs.Claim(c.servers.Context(), term.Claim)
	require.NoError(c.servers, err)
	return term, e
}

// claimUnanswered campaigns, and claims an epoch on a link so slow that ctx ends before the answer. The read takes two one-way
// delays, and the transaction is carried out after the third.
func (c *candidate) claimUnanswered() (*election.Term, error) {
	c.servers.Helper()
	term := c.campaign()
	time.Sleep(steady)
	const oneWay = 50 * time.Millisecond
	c.link.Delay(oneWay)
	ctx, cancel := context.WithTimeout(c.servers.Context(), oneWay*7/2)
	defer cancel()
	_, err := c.epochs.Claim(ctx, term.Claim)
	require.ErrorIs(c.servers, err, recipes.ErrUncertain)
	return term, err
}

// set returns the operation that writes the state.
func set(data string) *zk.SetDataRequest {
	return &zk.SetDataRequest{Path: state, Data: []byte(data), Version: -1}
}

// create returns an operation that creates a node, for the same transaction.
func create(path string) *zk.CreateRequest {
	return &zk.CreateRequest{Path: path, Acl: zk.WorldACL(zk.PermAll)}
}

func (s servers) requireState(want string) {
	s.Helper()
	data, _, err := s.Get(state)
	require.NoError(s, err)
	require.Equal(s, want, string(data))
}

// requireStale requires that an error names both epochs.
func (s servers) requireStale(err error, old, newest int64) {
	s.Helper()
	stale := s.stale(err)
	require.Equal(s, old, stale.Epoch)
	require.Equal(s, newest, stale.Newest.Number)
	require.ErrorContains(s, err, fmt.Sprintf("epoch %d", old))
	require.ErrorContains(s, err, fmt.Sprintf("epoch %d", newest))
}

func (s servers) stale(err error) *epoch.StaleError {
	s.Helper()
	var stale *epoch.StaleError
	require.ErrorAs(s, err, &stale)
	return stale
}
