// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
)

// maxHistory bounds a history id, in bytes: the id is sent in a header and stored beside each token.
const maxHistory = 64

// ErrOtherHistory matches, with errors.Is, the error by which a guard refuses a token from another history of the ensemble.
// Tokens of two histories are not ordered: the refused token is neither newer nor older than the stored one. Retrying does
// not help. An operator decides which history is valid, and resets the guard.
var ErrOtherHistory = errors.New("fencing: token of another history")

// HistoryError is the error by which a guard refuses a token from another history. errors.Is(err, [ErrOtherHistory]) holds
// for it.
type HistoryError struct {
	Token  Token  // the refused token
	Given  string // the history that the token was granted in
	Stored string // the history that the guard has stored
}

// Error names the token and both histories.
func (e *HistoryError) Error() string {
	return fmt.Sprintf("fencing: token %d is of history %q, and the guard's tokens are of history %q: "+
		"the ensemble was wiped or replaced; once no holder of the earlier history can write, reset the guard",
		e.Token, e.Given, e.Stored)
}

// Is reports whether target is [ErrOtherHistory].
func (e *HistoryError) Is(target error) bool { return target == ErrOtherHistory }

// CheckHistory returns nil if id is a valid history id, and otherwise an error with the reason: a valid id consists of 1 to
// 64 ASCII letters, digits, dots, hyphens and underscores. The empty id, with which guards check no history, is not valid.
func CheckHistory(id string) error {
	switch {
	case id == "":
		return errors.New("the history id is empty")
	case len(id) > maxHistory:
		return fmt.Errorf("the history id has %d bytes, more than %d", len(id), maxHistory)
	}
	for _, r := range id {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
		default:
			return fmt.Errorf("the history id %q contains the character %q", id, r)
		}
	}
	return nil
}
