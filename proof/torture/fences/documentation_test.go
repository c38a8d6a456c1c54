// SPDX-License-Identifier: Apache-2.0

package fences

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// code returns the part of a file of this package from the beginning of one text to the beginning of another.
func code(t *testing.T, file, from, to string) string {
	t.Helper()
	own, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(own), from)
	require.True(t, found)
	rest, _, found = strings.Cut(rest, to)
	require.True(t, found)
	return strings.TrimSpace(from + rest)
}

// shows requires that the documentation of a package contains text, indented.
func shows(t *testing.T, name, text string) {
	t.Helper()
	doc, err := os.ReadFile("../../../fencing/" + name + "/doc.go")
	require.NoError(t, err)
	want := strings.ReplaceAll("//\t"+strings.ReplaceAll(text, "\n", "\n//\t"), "//\t\n", "//\n")
	require.Contains(t, string(doc), want)
}
