// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestCausesAreBounded(t *testing.T) {
	for want, errs := range map[string][]error{
		"busy":      {&recipes.BusyError{Path: "/a"}},
		"cancelled": {context.Canceled},
		"closed":    {recipes.ErrClosed},
		"deadline":  {recipes.ErrDeadline},
		"deleted":   {recipes.ErrDeleted},
		"expired":   {recipes.ErrSessionExpired},
		"yielded":   {recipes.ErrYielded},
		"timeout":   {context.DeadlineExceeded, errors.Join(context.DeadlineExceeded, recipes.ErrSessionExpired)},
		"other":     {errors.New("server refused"), recipes.ErrUncertain},
	} {
		for _, err := range errs {
			require.Equal(t, want, Cause(err), "%v", err)
			wrapped := &recipes.Error{Op: "hold", Path: "/a", Err: fmt.Errorf("%w: %w", recipes.ErrLost, err)}
			require.Equal(t, want, Cause(wrapped), "%v", wrapped)
		}
	}
}

func TestFirstPathsKeepsTheirLabel(t *testing.T) {
	label := FirstPaths(2)
	for range 2 {
		for path, want := range map[string]string{"/a": "/a", "/b": "/b"} {
			require.Equal(t, want, label(path))
		}
	}
	require.Equal(t, "other", label("/c"))
	require.Equal(t, "/b", label("/b"))
	require.Equal(t, "other", FirstPaths(0)("/a"))
	require.Equal(t, "other", FirstPaths(-1)("/a"))
	require.Empty(t, NoPath("/a"))
}

func TestQueuesWithOneLabelAreCombined(t *testing.T) {
	early, late := time.Unix(1, 0), time.Unix(2, 0)
	a := recipes.QueueState{Path: "/a", Joining: 1, Waiting: 2, Held: 3, Deleting: 4, Oldest: late}
	b := recipes.QueueState{Path: "/b", Joining: 10, Waiting: 20, Held: 30, Deleting: 40, Oldest: early}
	none := recipes.QueueState{Path: "/c"}
	want := recipes.QueueState{Joining: 11, Waiting: 22, Held: 33, Deleting: 44, Oldest: early}
	require.Equal(t, want, sum(sum(sum(recipes.QueueState{}, a), b), none))
	require.Equal(t, want, sum(sum(sum(recipes.QueueState{}, none), b), a))
}
