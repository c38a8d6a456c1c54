// SPDX-License-Identifier: Apache-2.0

//go:build unix

package register

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
)

func TestFencedRegisterRejectsAndCountsStaleWrites(t *testing.T) {
	j := history.NewRecorder()
	r, err := New(clock.Start(), j.Add, false)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	older, newer := &Client{Addr: r.Addr()}, &Client{Addr: r.Addr()}
	defer func() {
		require.NoError(t, older.Close())
		require.NoError(t, newer.Close())
	}()
	write := func(c *Client, path string, attempt int, token int64) bool {
		accepted, err := c.Write(path, "c", attempt, fencing.Token(token))
		require.NoError(t, err)
		return accepted
	}
	for range 3 {
		require.True(t, write(older, "/l", 1, 5))
	}
	require.True(t, write(newer, "/l", 2, 6))
	require.False(t, write(older, "/l", 1, 5))
	require.False(t, write(older, "/l", 1, 5))
	require.True(t, write(older, "/other", 3, 1), "paths are independent")
	require.True(t, write(newer, "/l", 2, 6))
	require.Equal(t, Writes{All: 8, Stale: 2, Rejected: 2, AcceptedByBare: 2, Writers: 1}, r.Counts())

	type recorded struct {
		attempt          int
		fenced, accepted bool
	}
	var decisions []recorded
	for _, e := range j.Events() {
		require.Equal(t, history.Wrote, e.Kind)
		decisions = append(decisions, recorded{e.Attempt, e.Fenced, e.Accepted})
	}
	require.Equal(t, []recorded{ // of consecutive writes, the first
		{1, true, true},
		{1, false, true},
		{2, true, true},
		{2, false, true},
		{1, true, false},
		{1, false, true},
		{3, true, true},
		{3, false, true},
		{2, true, true},
		{2, false, true},
	}, decisions)
}

func TestStaleWriterIsCountedOnceAndBareRegistersRejectNothing(t *testing.T) {
	j := history.NewRecorder()
	r, err := New(clock.Start(), j.Add, true)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	c := &Client{Addr: r.Addr()}
	defer func() { require.NoError(t, c.Close()) }()
	for _, token := range []int{3, 1, 2, 1, 2, 3} { // they are attempt numbers, too
		accepted, err := c.Write("/l", "c", token, fencing.Token(token))
		require.NoError(t, err)
		require.True(t, accepted)
	}
	require.Equal(t, Writes{All: 6, Stale: 4, AcceptedByBare: 4, Writers: 2}, r.Counts())
	for _, e := range j.Events() {
		require.False(t, e.Fenced, "no fenced register exists")
		require.True(t, e.Accepted)
	}
}
