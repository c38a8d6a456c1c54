// SPDX-License-Identifier: Apache-2.0

package fencing

import "fmt"

// Check is the comparison of a guard that stores the newest admitted token itself, with the data that it guards: it returns
// nil if token may write, and the guard then stores token as the newest. newest is zero if no token was admitted yet. Check
// refuses an older token with a [*StaleError], and an invalid one with an error that wraps [ErrInvalid].
//
// The guard calls Check, writes and stores the token in one step, such as a transaction. A write in a second step may land
// after a newer one. [Gate] is for a guard that keeps the newest token in memory.
func Check(token, newest Token) error {
	_, err := CheckInHistory(token, newest, "", "")
	return err
}

// CheckInHistory is [Check] for a guard that stores, beside the newest token, the id of the history in which it was granted.
// history is token's, and stored is the stored one; each is the empty string if it is unknown. If token may write,
// CheckInHistory returns the id to store with it. It refuses a token of another history than the stored one, whatever the
// token's number, with a [*HistoryError], and a history that [CheckHistory] refuses with the error of CheckHistory.
func CheckInHistory(token, newest Token, history, stored string) (next string, err error) {
	switch {
	case !token.Valid():
		return "", fmt.Errorf("fencing: check token %d: %w", int64(token), ErrInvalid)
	case newest < 0:
		// The stored token is wrong, not the sender's: the error does not wrap ErrInvalid.
		return "", fmt.Errorf("fencing: check token %d: the newest token is %d, want zero or a token", int64(token), int64(newest))
	case history == "":
		next = stored
	default:
		if err := CheckHistory(history); err != nil {
			return "", fmt.Errorf("fencing: check token %d: %w", int64(token), err)
		}
		next = history
	}
	switch {
	case stored != "" && next != stored:
		return "", &HistoryError{Token: token, Given: history, Stored: stored}
	case token < newest:
		return "", &StaleError{Token: token, Newest: newest}
	}
	return next, nil
}
