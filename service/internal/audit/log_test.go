// SPDX-License-Identifier: Apache-2.0

package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
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

// A disk has room for some bytes, and is full then.
type disk struct {
	room int
	b    bytes.Buffer
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(row []byte) (int, error) {
	n := min(len(row), d.room)
	d.room -= n
	d.b.Write(row[:n])
	if n < len(row) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) Close() error { return nil }

// actions returns the actions of the rows that are JSON, and the number of rows that are not.
func actions(content string) (found []string, others int) {
	for row := range strings.Lines(content) {
		var e audit.Event
		if json.Unmarshal([]byte(row), &e) != nil {
			others++
			continue
		}
		found = append(found, e.Action)
	}
	return found, others
}

func TestEventAfterIncompleteOneHasItsOwnRow(t *testing.T) {
	d, next := &disk{room: 10}, &disk{room: 1000}
	l := audit.New(d)
	write := func(action string) error { return l.Write(t.Context(), audit.Event{Action: action}) }
	require.ErrorIs(t, write("acquire"), errFull)
	require.ErrorIs(t, write("renew"), errFull, "no byte is written")
	d.room = 1
	require.ErrorIs(t, write("release"), errFull, "only the end of the incomplete row is written")
	d.room = 1000
	require.NoError(t, write("expire"))
	require.NoError(t, write("reacquire"))
	d.room = 10
	require.ErrorIs(t, write("renew"), errFull)
	require.NoError(t, l.Replace(t.Context(), next))
	require.NoError(t, write("reopened"))
	require.NoError(t, l.Close())

	found, others := actions(d.b.String())
	require.Equal(t, []string{"expire", "reacquire"}, found)
	require.Equal(t, 2, others)
	require.Equal(t, 4, l.Lost())
	found, others = actions(next.b.String())
	require.Equal(t, []string{"reopened"}, found)
	require.Zero(t, others)
}

func TestEventAfterIncompleteRowOfAnEarlierRunHasItsOwnRow(t *testing.T) {
	for content, want := range map[string]string{
		"": "", "{\"action\":\"acquire\"}\n": "{\"action\":\"acquire\"}\n", "{\"act": "{\"act\n",
	} {
		name := filepath.Join(t.TempDir(), "audit.jsonl")
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		for range 2 {
			file, err := audit.Open(name)
			require.NoError(t, err)
			require.NoError(t, file.Close())
		}
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestLogWithoutFileWritesNothing(t *testing.T) {
	var l *audit.Log
	require.NoError(t, l.Write(t.Context(), audit.Event{}))
	require.NoError(t, l.Post(audit.Event{}))
	require.NoError(t, l.Close())
	require.Zero(t, l.Pending()+l.Lost())
}
