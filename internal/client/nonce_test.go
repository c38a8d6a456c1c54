// SPDX-License-Identifier: Apache-2.0

package client

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachAttemptHasANonceOfItsOwn(t *testing.T) {
	one, other := newNonces(), newNonces()
	require.NotEqual(t, one.next(), one.next())
	require.NotEqual(t, one.next(), other.next())
	require.NotContains(t, one.next(), "/", "it can stand in a name")
}
