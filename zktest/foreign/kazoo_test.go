// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The scripts contain a test for each part of the API.
func TestKazoosEverydayAPIWorks(t *testing.T) {
	for _, script := range []string{"kazoo_nodes.py", "kazoo_recipes.py"} {
		t.Run(script, func(t *testing.T) {
			s := serve(t)
			p := python(t, script, s.list(), s.root)
			p.wait()
			require.Regexp(t, `(?m)^Ran [1-9]\d+ tests`, p.output(), "the script runs its tests")
		})
	}
}

func TestKazooLearnsOfSessionLossAndContinuesWithNewSession(t *testing.T) {
	s := serveControllable(t)
	p := python(t, "kazoo_session.py", s.list(), s.root)
	session := kazooSession(t, p)
	p.until("children own")

	require.NoError(t, s.ensemble.Expire(t.Context(), session))
	p.until("state LOST")
	require.NotEqual(t, session, kazooSession(t, p))
	children, err := s.ensemble.Children(s.root)
	require.NoError(t, err)
	require.Empty(t, children, "the node was ephemeral")

	require.NoError(t, s.ensemble.Create(s.root+"/late", nil))
	p.until("children late") // its watch belongs to the new session
	p.close()
}

func TestKazooKeepsSessionAndWatchesOverServerRestart(t *testing.T) {
	s := serveControllable(t)
	p := python(t, "kazoo_session.py", s.list(), s.root)
	session := kazooSession(t, p)
	p.until("children own")

	want := "children own"
	for i := range 3 {
		require.NoError(t, s.ensemble.Server(1).Kill(t.Context()))
		p.until("state SUSPENDED")
		require.NoError(t, s.ensemble.Server(1).Start(t.Context()))
		require.Equal(t, session, kazooSession(t, p))

		require.NoError(t, s.ensemble.Create(fmt.Sprintf("%s/p%d", s.root, i), nil))
		want += fmt.Sprintf(",p%d", i)
		p.until(want)
	}
	p.close()
}

// kazooSession waits until the client is connected and returns its session.
func kazooSession(t *testing.T, p *process) int64 {
	t.Helper()
	var session int64
	_, err := fmt.Sscanf(p.until("state CONNECTED"), "state CONNECTED %d", &session)
	require.NoError(t, err)
	require.NotZero(t, session)
	return session
}
