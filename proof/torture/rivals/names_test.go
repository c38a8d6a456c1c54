// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rivals_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/rivals"
)

func TestEveryRivalDocumentsItsNotificationsAndServers(t *testing.T) {
	for name, r := range rivals.All() {
		require.NotEmpty(t, r.Name, name)
		require.NotEmpty(t, r.NotifiedBy, name)
		require.True(t, r.Servers == nil || r.Limits != "", "%s: it describes its servers, unless this library uses the same", name)
	}
}
