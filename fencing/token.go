// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrInvalid is returned, wrapped, for a token that cannot have been granted: zero, negative, or text that is not the
// decimal form of a positive 64-bit integer. The caller sent no token, or sent something else in its place.
var ErrInvalid = errors.New("invalid token, want a decimal number from 1 to 9223372036854775807")

// A Token numbers the exclusive grants of one path: each token is greater than all before it, within one history of the
// ensemble. Valid tokens are positive; the zero value is invalid and means that there is no token.
//
// Tokens are ordered by the ordinary <. The numbers between two tokens need not have been granted. Tokens of different paths
// are not comparable.
//
// A Token is transmitted as decimal digits. It prints in this form, and its JSON form is a string, because readers that
// represent numbers as floating point lose digits above 2⁵³. Its kind is int64, so database/sql stores it in a BIGINT and
// reads it back without conversion.
type Token int64

// ParseToken parses what [Token.String] returns for a valid token, and nothing else: no sign, space, underscore or leading
// zero. The error wraps [ErrInvalid] and quotes the text (its beginning, if it is long).
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	t := Token(n)
	// Text that does not print unchanged is a second spelling of the token; a program that compares or stores the text would
	// take the two spellings for two tokens.
	if err != nil || !t.Valid() || t.String() != s {
		return 0, fmt.Errorf("fencing: parse token %.40q: %w", s, ErrInvalid)
	}
	return t, nil
}

// Valid reports whether t is positive, as every granted token is.
func (t Token) Valid() bool { return t > 0 }

// String returns t in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText returns t in decimal. It refuses an invalid token with an error that wraps [ErrInvalid], so that a missing
// token is detected at the sender. A JSON field that may be without a token uses omitzero.
func (t Token) MarshalText() ([]byte, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("fencing: marshal token %d: %w", int64(t), ErrInvalid)
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

// UnmarshalText parses text as [ParseToken] does. On an error t is unchanged.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
