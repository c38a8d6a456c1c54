// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecordThatWasRevokedNamesTheAdministrator(t *testing.T) {
	err := revocationOf([]byte(`{"format":1,"revoked":{"by":"admin","reason":"maintenance"}}`))
	require.ErrorIs(t, err, ErrRevoked)
	require.EqualError(t, err, `revoked by "admin": maintenance`)
	require.NoError(t, revocationOf([]byte(`{"format":1}`)))
}
