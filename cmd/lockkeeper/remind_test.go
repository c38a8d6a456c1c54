// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestUnreachableServiceIsReportedAgainEvery30Seconds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var stderr syncBuffer
		var reachable atomic.Bool
		stop := remind(t.Context(), "watch", func(ctx context.Context) error {
			if reachable.Load() {
				return nil
			}
			<-ctx.Done() // as from a service that does not answer
			return errors.Join(errors.New("reach http://a"), context.Cause(ctx))
		}, &stderr)
		time.Sleep(100 * time.Second)
		const once = "lockkeeper: watch: reach http://a\nno server answered in time (3s)\n"
		require.Equal(t, strings.Repeat(once, 4), stderr.String())
		reachable.Store(true)
		time.Sleep(time.Hour)
		require.Equal(t, strings.Repeat(once, 4), stderr.String(), "a service that can be reached again")
		stop()
		time.Sleep(time.Hour)
	})
}

func TestReminderThatIsStoppedPrintsNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		var stderr syncBuffer
		stop := remind(t.Context(), "run", func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}, &stderr)
		time.Sleep(firstReminder + time.Second)
		stop()
		require.Empty(t, stderr.String())
	})
}

func TestStopOfReminderDoesNotWaitForWriteThatBlocks(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		reader, stderr := io.Pipe()
		stop := remind(t.Context(), "run", func(context.Context) error { return errors.New("connection refused") }, stderr)
		time.Sleep(firstReminder + reminderInterval + time.Second)
		stop()
		text := make([]byte, 100)
		n, err := reader.Read(text)
		require.NoError(t, err)
		require.Equal(t, "lockkeeper: run: connection refused\n", string(text[:n]), "one write at a time")
		time.Sleep(time.Hour)
		require.NoError(t, reader.Close())
	})
}
