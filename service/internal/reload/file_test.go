// SPDX-License-Identifier: Apache-2.0

package reload_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/internal/reload"
)

func parse(content []byte) (*string, error) {
	if len(content) == 0 || string(content) == "bad" { // a file that is being written is empty first
		return nil, errors.New("broken")
	}
	s := string(content)
	return &s, nil
}

// The contents have one length while the file is watched and not removed: a read during a write must not return the beginning
// of one content and the end of the next.
func TestChangedFileIsReadAndBrokenOneIsNot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	write := func(content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	_, err := reload.Open(path, parse)
	require.ErrorIs(t, err, os.ErrNotExist)
	write("bad")
	_, err = reload.Open(path, parse)
	require.ErrorContains(t, err, path)

	write("one")
	f, err := reload.Open(path, parse)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		f.Watch(ctx, time.Millisecond, slog.New(slog.DiscardHandler))
		close(done)
	}()
	becomes := func(want string) {
		require.Eventually(t, func() bool { return *f.Get() == want }, time.Minute, time.Millisecond)
	}
	becomes("one")
	write("two")
	becomes("two")
	write("bad")
	require.NoError(t, os.Remove(path))
	require.Never(t, func() bool { return *f.Get() != "two" }, 20*time.Millisecond, time.Millisecond)
	write("three")
	becomes("three")
	cancel()
	<-done
}
