// SPDX-License-Identifier: Apache-2.0

//go:build unix

package audit_test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/internal/audit"
)

func TestPipeReceivesOnlyEvents(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit")
	require.NoError(t, syscall.Mkfifo(name, 0o600))
	opened := make(chan *os.File, 1)
	go func() {
		file, err := os.Open(name) // which waits until the pipe is opened for writing
		assert.NoError(t, err)
		opened <- file
	}()
	file, err := audit.Open(name)
	require.NoError(t, err)
	reader := <-opened
	require.NoError(t, file.Close())
	got, err := io.ReadAll(reader)
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, reader.Close())
}
