// SPDX-License-Identifier: Apache-2.0

package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPageOfSlowNamespaceIsReadLessOften(t *testing.T) {
	require.Equal(t, 2*time.Second, viewPause(time.Millisecond))
	require.Equal(t, 9*time.Second, viewPause(time.Second))
	require.Equal(t, 15*time.Second, viewPause(10*time.Second), "within the idle timeouts of load balancers, with the read itself")
}
