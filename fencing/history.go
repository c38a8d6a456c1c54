// SPDX-License-Identifier: Apache-2.0

package fencing

import (
	"errors"
	"fmt"
)

// maxHistory bounds a history id, in bytes: it travels in a header and is stored beside each token.
const maxHistory = 64

// ErrOtherHistory is found by errors.Is in a guard's refusal of a token from another history of the ensemble. Tokens of
// two histories are not ordered: the refused one is neither newer nor older than what the guard has stored. Sending
// again does not help. An operator decides which history counts, and resets the guard.
var ErrOtherHistory = errors.New("fencing: token of another history")

// HistoryError is the refusal of a token from another history. errors.Is(err, [ErrOtherHistory]) holds for it.
type HistoryError struct {
	Token  Token  // the refused token
	Given  string // the history that the token was granted in
	Stored string // the history that the guard has stored
}

func (e *HistoryError) Error() string {
	return fmt.Sprintf("fencing: token %d is of history %q, and the guard's tokens are of history %q: "+
		"the ensemble was wiped or replaced; once no holder of the earlier history can write, reset the guard",
		e.Token, e.Given, e.Stored)
}

// Is reports whether target is [ErrOtherHistory].
func (e *HistoryError) Is(target error) bool { return target == ErrOtherHistory }

// CheckHistory returns nil if id can be the id of a history, and otherwise an error that says why not: an id has 1 to 64
// ASCII letters, digits, dots, hyphens and underscores. The empty id, with which guards check no history, is not one.
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
			return fmt.Errorf("the history id %q has the character %q", id, r)
		}
	}
	return nil
}
