// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestLogNamesTheSettingOfServersThatBoundsTheSessionTimeout(t *testing.T) {
	for _, c := range []struct {
		requested, tick, granted time.Duration
		warning                  string
	}{
		{10 * time.Second, time.Second, 10 * time.Second, ""},
		{time.Minute, time.Second, 20 * time.Second, "requested=1m0s granted=20s bound=maxSessionTimeout server=zktest-1:2181"},
		{time.Second, 2 * time.Second, 4 * time.Second, "requested=1s granted=4s bound=minSessionTimeout server=zktest-1:2181"},
	} {
		faketime.Test(t, func(t *testing.T) {
			s := startEnsemble(t, zktest.Options{InMemory: true, Tick: c.tick})
			var log records
			opts := s.options()
			opts.SessionTimeout, opts.Logger = c.requested, slog.New(&log)
			client := s.connect(opts)
			claim := claimed(t, client)
			require.Equal(t, c.granted, client.SessionTimeout())
			require.Less(t, time.Until(claim.Deadline()), c.granted, "deadlines follow from the granted timeout")
			require.NoError(t, newQueue(t, client, nil).Release(t.Context(), claim))
			client.Close()
			var warnings []string
			for _, line := range log.text() {
				if strings.HasPrefix(line, "WARN") {
					warnings = append(warnings, line)
				}
			}
			if c.warning == "" {
				require.Empty(t, warnings)
				return
			}
			require.Equal(t, []string{
				"WARN zookeeper granted another session timeout than requested: its configuration bounds it " + c.warning,
			}, warnings)
		})
	}
}

// records is a slog.Handler that keeps its records.
type records struct{ all []slog.Record }

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.all = append(r.all, record)
	return nil
}
func (r *records) WithAttrs([]slog.Attr) slog.Handler { return r }
func (r *records) WithGroup(string) slog.Handler      { return r }

func (r *records) text() []string {
	var lines []string
	for _, record := range r.all {
		line := record.Level.String() + " " + record.Message
		record.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
		lines = append(lines, line)
	}
	return lines
}
