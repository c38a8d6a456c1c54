// SPDX-License-Identifier: Apache-2.0

//go:build unix

package suite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A killed process releases nothing. Its session expires T after its last message reached the servers, at the next tick, and
// then the next candidate leads immediately.
func TestKilledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	s := onThree(t)
	const (
		timeout = 4 * time.Second        // of those that are killed, and live until then
		tick    = 200 * time.Millisecond // of the servers
	)
	task := contenderTask{Path: s.Path("election"), Timeout: timeout, Election: true}
	first := s.contender(task)
	firstToken := tokenOf(first, "acquired")
	second := s.contender(task)
	s.Waiting("election", 2)
	third := s.Campaigning(s.Ctx, s.Election(s.Connect(recipes.Options{SessionTimeout: 10 * time.Second}), "election", "third"))
	s.Waiting("election", 3)

	killed := time.Now()
	first.Kill()
	secondToken := tokenOf(second, "acquired")
	t.Logf("T = %v: the second led %v after the first was killed, of at most %v", timeout, time.Since(killed), timeout+tick*3/2)
	require.Greater(t, secondToken, firstToken)

	killed = time.Now()
	second.Kill()
	term := third.Won()
	took := third.At.Sub(killed)
	t.Logf("T = %v: the third led %v after the second was killed, of at most %v", timeout, took, timeout+tick*3/2)
	require.Greater(t, term.Token(), secondToken)
	require.Less(t, took-unscheduled.within(killed, third.At), 3*timeout, "also where servers and tests share two processors")
	s.Resign(term)
}
