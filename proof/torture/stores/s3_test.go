// SPDX-License-Identifier: Apache-2.0

package stores_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/proof/torture/stores"
)

func TestS3ServesAgainAfterItWasKilled(t *testing.T) {
	s := stores.S3(t, nil)
	for range 2 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr+"/bucket/key", nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusNotFound, response.StatusCode, "the bucket does not exist")
		require.NoError(t, s.Kill(t.Context()))
		require.NoError(t, s.Start(t.Context()))
	}
}

func TestS3ThatCannotBeBuiltIsNotInstalled(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", t.TempDir())
	_, err := stores.RunS3(t.Context(), nil)
	require.ErrorIs(t, err, stores.ErrNotInstalled)
	require.ErrorContains(t, err, "go install github.com/versity/versitygw/cmd/versitygw@v")
}
