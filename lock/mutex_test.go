// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func TestNewRejectsInvalidArgumentsAndNamesThem(t *testing.T) {
	for _, path := range []string{
		"", "locks", "locks/a", "/", "//", "//locks", "/locks//a", "/locks/", "/locks/.", "/./locks", "/locks/../a",
		"/locks/a\nb", "/locks/\x00", "/locks/\x7f", "/locks/\u0085", "/locks/\xff", "/locks/\ue000", "/zookeeper/locks",
	} {
		mu, err := lock.New(&recipes.Client{}, path, nil)
		require.Nil(t, mu)
		require.ErrorContains(t, err, "new lock", "the operation")
		require.ErrorContains(t, err, fmt.Sprintf("path %q", path))
	}
	for _, invalid := range []struct {
		opts lock.Options
		want string
	}{
		{lock.Options{ReleaseTimeout: -time.Second}, "release timeout -1s"},
		{lock.Options{ReleaseTimeout: -1}, "release timeout -1ns"},
		{lock.Options{Owner: strings.Repeat("x", 4097)}, "4097 bytes is over the limit of 4096"},
	} {
		mu, err := lock.New(&recipes.Client{}, "/locks/a", &invalid.opts)
		require.Nil(t, mu)
		require.ErrorContains(t, err, "new lock", "the operation")
		require.ErrorContains(t, err, invalid.want)
		var failed *recipes.Error
		require.ErrorAs(t, err, &failed)
	}
	mu, err := lock.New(nil, "/locks/a", nil)
	require.Nil(t, mu)
	require.ErrorContains(t, err, "client is nil")
}
