// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestHistoryIDHasUpTo64PlainCharacters(t *testing.T) {
	for _, id := range []string{"a", "AZaz09._-", strings.Repeat("x", 64)} {
		require.NoError(t, fencing.CheckHistory(id), "%q", id)
	}
	for id, want := range map[string]string{
		"":                      "the history id is empty",
		strings.Repeat("x", 65): "the history id has 65 bytes, more than 64",
		"a b":                   `the history id "a b" contains the character ' '`,
		"é":                     `the history id "é" contains the character 'é'`,
		"a\r\n":                 `the history id "a\r\n" contains the character '\r'`,
	} {
		require.EqualError(t, fencing.CheckHistory(id), want)
	}
}

func TestHistoryErrorNamesBothHistoriesAndRemedy(t *testing.T) {
	err := fmt.Errorf("put: %w", &fencing.HistoryError{Token: 7, Given: "new", Stored: "old"})
	require.ErrorIs(t, err, fencing.ErrOtherHistory)
	require.False(t, errors.Is(err, fencing.ErrStale), "another history is neither newer nor older")
	require.ErrorContains(t, err, `token 7 is of history "new"`)
	require.ErrorContains(t, err, `of history "old"`)
	require.ErrorContains(t, err, "reset the guard")
}
