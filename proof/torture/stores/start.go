// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// A startable is a server that has not been started yet.
type startable interface {
	Start(ctx context.Context) error
	Close() error
}

// first starts s for the first time. On error it closes s.
func first[S startable](ctx context.Context, s S) (S, error) {
	if err := s.Start(ctx); err != nil {
		var none S
		return none, errors.Join(err, s.Close())
	}
	return s, nil
}

// started returns s, which tb has started, and closes it when tb ends. With an error it ends tb.
func started[S startable](tb testing.TB, s S, err error) S {
	tb.Helper()
	if err != nil {
		unstarted(tb, err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

// unstarted ends a test whose server did not start.
func unstarted(tb testing.TB, err error) {
	tb.Helper()
	if errors.Is(err, ErrNotInstalled) {
		need.Lacking(tb, "%v", err)
	}
	tb.Fatal(err)
}
