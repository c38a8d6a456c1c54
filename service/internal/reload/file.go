// SPDX-License-Identifier: Apache-2.0

// Package reload keeps the parsed content of a file that changes while the service runs.
package reload

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// A File is the parsed content of a file. All its methods are safe for concurrent use, Watch excepted.
type File[T any] struct {
	path    string
	parse   func(content []byte) (*T, error)
	current atomic.Pointer[T]
	last    []byte // the content that current was parsed from
}

// Open reads and parses a file. An invalid file is an error.
func Open[T any](path string, parse func(content []byte) (*T, error)) (*File[T], error) {
	f := &File[T]{path: path, parse: parse}
	if _, err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Fixed returns a File whose content never changes.
func Fixed[T any](value *T) *File[T] {
	f := &File[T]{}
	f.current.Store(value)
	return f
}

// Get returns the newest valid content.
func (f *File[T]) Get() *T { return f.current.Load() }

// Watch reads the file at each interval until ctx is done, and logs each change. While the file is missing or invalid,
// Get returns the last valid content: a mistake in the file must not lock out every caller. It compares contents, not
// times: a file that is replaced within the clock's resolution, or through a symbolic link, is noticed.
func (f *File[T]) Watch(ctx context.Context, interval time.Duration, logger *slog.Logger) {
	if f.path == "" {
		return
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := f.reload()
		switch {
		case err != nil && !failing:
			logger.Error("file not reloaded: the previous content stays in force", "path", f.path, "error", err)
		case err == nil && changed:
			logger.Info("file reloaded", "path", f.path)
		}
		failing = err != nil
	}
}

// reload reads the file, and reports whether its content is new and valid. An invalid content is parsed again each time:
// parse may read another file too, which is replaced a moment later.
func (f *File[T]) reload() (changed bool, err error) {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return false, err // has the operation and the path
	}
	if f.last != nil && bytes.Equal(content, f.last) {
		return false, nil
	}
	value, err := f.parse(content)
	if err != nil {
		return false, fmt.Errorf("parse %s: %w", f.path, err)
	}
	f.last = content
	f.current.Store(value)
	return true, nil
}
