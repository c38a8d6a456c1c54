// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"log/slog"
	"strings"
)

// A TB is the part of *testing.T that Start uses.
type TB interface {
	Helper()
	Cleanup(func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// testLog writes log records to a test's log.
type testLog struct{ t TB }

func (l *testLog) Write(p []byte) (int, error) {
	l.t.Logf("zktest: %s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// withoutTime drops the time and the level, which a test's log does not need.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
		return slog.Attr{}
	}
	return a
}
