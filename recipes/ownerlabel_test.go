// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwnerLabelOverTheLimitIsRefusedWithTheLimit(t *testing.T) {
	require.NoError(t, CheckOwner(""))
	require.NoError(t, CheckOwner(strings.Repeat("o", 4096)))
	require.EqualError(t, CheckOwner(strings.Repeat("o", 4097)), "owner label of 4097 bytes is over the limit of 4096")
	require.Error(t, CheckOwner(strings.Repeat("ö", 2049)), "bytes count, not characters")
}
