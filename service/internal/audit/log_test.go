// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
)

// A pipe blocks each Write until it is read from.
type pipe struct {
	open chan struct{}
	b    bytes.Buffer
}

func (p *pipe) Write(row []byte) (int, error) {
	<-p.open
	return p.b.Write(row)
}

// Close ends nothing: a write that blocks goes on.
func (p *pipe) Close() error { return nil }

func TestEventsWaitForFileThatBlocksUpToABound(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		p := &pipe{open: make(chan struct{})}
		l := audit.New(p)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Write(ctx, audit.Event{Action: "acquire"}), audit.ErrPending)
		for range 4095 {
			require.NoError(t, l.Post(audit.Event{Action: "renew"}))
		}
		require.ErrorIs(t, l.Post(audit.Event{Action: "release"}), audit.ErrLost)
		require.Equal(t, []int{4096, 1}, []int{l.Pending(), l.Lost()})
		require.ErrorContains(t, l.Close(), "lacks 4096 events")
		close(p.open)
		require.NoError(t, l.Close())
		require.ErrorIs(t, l.Post(audit.Event{}), audit.ErrLost, "after Close")
		rows := strings.Split(strings.TrimSpace(p.b.String()), "\n")
		require.Len(t, rows, 4096)
		require.Contains(t, rows[0], "acquire", "in order")
	})
}

func TestEventsGoToANewFileOnceThoseBeforeAreWritten(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		old, replacement := &pipe{open: make(chan struct{})}, &pipe{open: make(chan struct{})}
		close(replacement.open)
		l := audit.New(old)
		require.NoError(t, l.Post(audit.Event{Action: "acquire"}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Replace(ctx, replacement), context.DeadlineExceeded, "the old file blocks")
		require.NoError(t, l.Post(audit.Event{Action: "release"}))
		close(old.open)
		require.NoError(t, l.Close())
		require.Equal(t, []int{1, 1}, []int{strings.Count(old.b.String(), "acquire"), strings.Count(old.b.String(), "\n")})
		require.Equal(t, []int{1, 1}, []int{strings.Count(replacement.b.String(), "release"), strings.Count(replacement.b.String(), "\n")})
		require.ErrorContains(t, l.Replace(t.Context(), old), "closed")
	})
}

func TestLogWithoutFileWritesNothing(t *testing.T) {
	var l *audit.Log
	require.NoError(t, l.Write(t.Context(), audit.Event{}))
	require.NoError(t, l.Post(audit.Event{}))
	require.NoError(t, l.Close())
	require.Zero(t, l.Pending()+l.Lost())
}
