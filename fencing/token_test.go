// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
)

func TestOnlyPositiveTokensAreValid(t *testing.T) {
	require.False(t, fencing.Token(0).Valid())
	require.False(t, fencing.Token(-1).Valid())
	require.False(t, fencing.Token(math.MinInt64).Valid())
	require.True(t, fencing.Token(1).Valid())
	require.True(t, fencing.Token(math.MaxInt64).Valid())
}

func TestTokenPrintsAndParsesAsDecimal(t *testing.T) {
	for text, token := range map[string]fencing.Token{
		"1":                   1,
		"4294967311":          4294967311,
		"9223372036854775807": math.MaxInt64,
	} {
		require.Equal(t, text, token.String())
		parsed, err := fencing.ParseToken(text)
		require.NoError(t, err)
		require.Equal(t, token, parsed)
	}
}

func TestParseTokenRefusesNonCanonicalText(t *testing.T) {
	for _, text := range []string{
		"", "0", "-1", "+1", "007", "00", " 1", "1 ", "1\n", "1_000", "0x1f", "1.0", "1e3", "one", "٣",
		"9223372036854775808", "18446744073709551617",
	} {
		token, err := fencing.ParseToken(text)
		require.ErrorIs(t, err, fencing.ErrInvalid, "%q", text)
		require.Zero(t, token, "%q", text)
	}
}

func TestParseTokenErrorNamesRefusedText(t *testing.T) {
	_, err := fencing.ParseToken("007")
	require.EqualError(t, err,
		`fencing: parse token "007": invalid token, want a decimal number from 1 to 9223372036854775807`)

	// The text may come from the network: the error, and the log that records it, must stay short.
	_, err = fencing.ParseToken(strings.Repeat("9", 1<<20))
	require.ErrorIs(t, err, fencing.ErrInvalid)
	require.Less(t, len(err.Error()), 200)
}

func FuzzParsedTokenPrintsUnchanged(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "-1", "+1", "007", "9223372036854775807", "9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token, err := fencing.ParseToken(text)
		if err != nil {
			require.ErrorIs(t, err, fencing.ErrInvalid)
			return
		}
		require.True(t, token.Valid())
		require.Equal(t, text, token.String())
	})
}

type message struct {
	Token fencing.Token `json:"token,omitzero"`
}

func TestTokenSurvivesJSONWithAllDigits(t *testing.T) {
	const text = `{"token":"9223372036854775807"}`
	encoded, err := json.Marshal(message{Token: math.MaxInt64})
	require.NoError(t, err)
	require.JSONEq(t, text, string(encoded))

	var decoded message
	require.NoError(t, json.Unmarshal([]byte(text), &decoded))
	require.Equal(t, fencing.Token(math.MaxInt64), decoded.Token)

	encoded, err = json.Marshal(message{})
	require.NoError(t, err)
	require.JSONEq(t, `{}`, string(encoded), "an absent token is an absent field")
}

func TestInvalidTokenIsNotMarshalled(t *testing.T) {
	for _, token := range []fencing.Token{0, -1} {
		_, err := token.MarshalText()
		require.ErrorIs(t, err, fencing.ErrInvalid)
	}
	kept := fencing.Token(7)
	require.ErrorIs(t, kept.UnmarshalText([]byte("-3")), fencing.ErrInvalid)
	require.Equal(t, fencing.Token(7), kept, "refused text leaves the token unchanged")
}

// Token has neither Value nor Scan; this test shows that it needs none.
func TestTokenSurvivesBigint(t *testing.T) {
	stored, err := driver.DefaultParameterConverter.ConvertValue(fencing.Token(math.MaxInt64))
	require.NoError(t, err)
	require.Equal(t, int64(math.MaxInt64), stored)

	var column sql.Null[fencing.Token]
	require.NoError(t, column.Scan(stored))
	require.Equal(t, fencing.Token(math.MaxInt64), column.V)
}
