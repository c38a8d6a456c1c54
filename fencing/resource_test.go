// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestResourceNameIsNonEmptyBoundedUTF8WithoutNUL(t *testing.T) {
	for _, name := range []string{"ledger", " ", "..", "a/b\n", "ledgér", strings.Repeat("l", 512)} {
		require.NoError(t, fencing.CheckResource(name), "%q", name)
	}
	for name, want := range map[string]string{
		"":                         "is empty",
		strings.Repeat("l", 513):   "has 513 bytes, more than 512",
		"led\x00ger":               "contains a NUL",
		"led\xffger":               "is not UTF-8",
		strings.Repeat("\x00", 99): "contains a NUL",
	} {
		require.EqualError(t, fencing.CheckResource(name), "the resource's name "+want)
	}
}
