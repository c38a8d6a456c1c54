// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// The first choice of a process may pull an image for minutes.
func TestCallerWhoseContextEndsDoesNotWaitForTheChoiceOfABackend(t *testing.T) {
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted)
	pulled := make(chan struct{})
	defer close(pulled)
	_, err := within(ctx, "choose", func() (choice, error) {
		<-pulled
		return choice{}, nil
	})
	require.ErrorIs(t, err, interrupted)
}
