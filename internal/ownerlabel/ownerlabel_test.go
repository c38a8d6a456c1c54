// SPDX-License-Identifier: Apache-2.0

package ownerlabel

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwnerLabelOverTheLimitIsRefusedWithTheLimit(t *testing.T) {
	require.NoError(t, Check(""))
	require.NoError(t, Check(strings.Repeat("o", 4096)))
	require.EqualError(t, Check(strings.Repeat("o", 4097)), "owner label of 4097 bytes is over the limit of 4096")
	require.Error(t, Check(strings.Repeat("ö", 2049)), "bytes count, not characters")
}

func TestOwnerLabelThatIsNotUTF8IsRefused(t *testing.T) {
	require.EqualError(t, Check("pod-\xff"), `owner label "pod-\xff" is not valid UTF-8: other clients could not read it`)
	require.NoError(t, Check("größe"))
}
