// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrInvalid is returned, wrapped, for a token that was never granted: zero, negative, or text that is not the decimal
// form of a positive 64-bit integer. The caller sent no token, or something else in its place.
var ErrInvalid = errors.New("invalid token, want a decimal number from 1 to 9223372036854775807")

// A Token numbers the exclusive grants of one path: each is greater than all before it, within one history of the
// ensemble. Valid tokens are positive; the zero value is invalid and means that there is none.
//
// Tokens are ordered by the ordinary <. The numbers in between were not necessarily granted to anybody, and tokens of
// different paths are not comparable.
//
// A Token travels as decimal digits: it prints as such, and as JSON it is a string, because readers that keep numbers
// as floating point lose digits above 2⁵³. Being an int64 in kind, it goes into and comes out of a BIGINT through
// database/sql as it is.
type Token int64

// ParseToken reads what [Token.String] writes for a valid token, and nothing else: no sign, space, underscore or leading
// zero. The error wraps [ErrInvalid] and names the text (its beginning, if it is long).
func ParseToken(s string) (Token, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	t := Token(n)
	// What does not print as it came has a second spelling, and two spellings of one token are one too many for whoever
	// compares or stores the text.
	if err != nil || !t.Valid() || t.String() != s {
		return 0, fmt.Errorf("fencing: parse token %.40q: %w", s, ErrInvalid)
	}
	return t, nil
}

// Valid reports whether t can have been granted, which is to say whether it is positive.
func (t Token) Valid() bool { return t > 0 }

// String returns t in decimal.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// MarshalText returns t in decimal. It refuses an invalid token with an error that wraps [ErrInvalid], so that a
// forgotten one is found where it was forgotten; a JSON field that may have none says omitzero.
func (t Token) MarshalText() ([]byte, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("fencing: marshal token %d: %w", int64(t), ErrInvalid)
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

// UnmarshalText reads text as [ParseToken] does. On an error t keeps its value.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}
