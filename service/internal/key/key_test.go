// SPDX-License-Identifier: Apache-2.0

package key_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/service/internal/key"
)

func TestKeyHasOneNodeName(t *testing.T) {
	for _, c := range []struct{ key, name string }{
		{"orders", "orders"},
		{"a.b_c:d~e@f+g-H9", "a.b_c:d~e@f+g-H9"},
		{".", "%2E"},
		{"..", "%2E%2E"},
		{"...", "..."},
		{"../../zookeeper", "..%2F..%2Fzookeeper"},
		{"a/b", "a%2Fb"},
		{"a%2Fb", "a%252Fb"},
		{"\x00", "%00"},
		{"ü", "%C3%BC"},
		{" ", "%20"},
	} {
		require.NoError(t, key.Check(c.key))
		require.Equal(t, c.name, key.Encode(c.key))
		decoded, ok := key.Decode(c.name)
		require.True(t, ok, c.name)
		require.Equal(t, c.key, decoded)
		require.Equal(t, "/team/"+c.name, key.Path("team", c.key))
	}
}

func TestNameThatNoKeyHasIsNotDecoded(t *testing.T) {
	for _, name := range []string{"", "%", "%2", "%2f", "%41", "a b", "%2E%2Ea", ".", "..", "%FF", "a/b"} {
		_, ok := key.Decode(name)
		require.False(t, ok, "%q", name)
	}
}

func TestBadKeyIsRefused(t *testing.T) {
	require.ErrorContains(t, key.Check(""), "empty")
	require.NoError(t, key.Check(strings.Repeat("x", key.MaxBytes)))
	require.ErrorContains(t, key.Check(strings.Repeat("x", key.MaxBytes+1)), "limit of 512")
	require.ErrorContains(t, key.Check("\xff"), "UTF-8")
}

func TestBadNamespaceIsRefused(t *testing.T) {
	for _, good := range []string{"a", "team-a", "0", "billing.eu_1"} {
		require.NoError(t, key.CheckNamespace(good), good)
	}
	for _, bad := range []string{"", ".", "..", "a/b", "a\n", "-a", "zookeeper", "lockkeeper-history", "ü", strings.Repeat("a", 65)} {
		require.Error(t, key.CheckNamespace(bad), "%q", bad)
	}
}

func FuzzDecodeReversesEncode(f *testing.F) {
	for _, seed := range []string{"", ".", "..", "a/b", "%2F", "\x00", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, k string) {
		name := key.Encode(k)
		require.NotContains(t, name, "/")
		require.NotContains(t, []string{".", ".."}, name)
		if key.Check(k) == nil {
			decoded, ok := key.Decode(name)
			require.True(t, ok)
			require.Equal(t, k, decoded)
		}
		if back, ok := key.Decode(k); ok { // k as a name
			require.Equal(t, k, key.Encode(back))
		}
	})
}
