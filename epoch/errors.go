// SPDX-License-Identifier: Apache-2.0

package epoch

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// ErrNoEpoch is returned by Current when no epoch has been claimed yet.
var ErrNoEpoch = errors.New("no epoch yet")

// A StaleError reports that an epoch has ended, or that a term can no longer have one: nothing was written.
// It matches fencing.ErrStale, and also recipes.ErrLost if the term was lost. Stop the work and resign.
type StaleError struct {
	Path   string        // of the epoch's node
	Epoch  int64         // the epoch that has ended; 0 if the term has none
	Token  fencing.Token // of its term
	Newest Record        // the newest epoch; its Number is 0 if the node is gone, or could not be read
	Err    error         // the loss of the term, or what happened to the node; nil if Newest is the whole reason
}

// Error returns both epochs, and the cause.
func (e *StaleError) Error() string {
	s := fmt.Sprintf("epoch %d of %s, with token %v, has ended", e.Epoch, e.Path, e.Token)
	if e.Epoch == 0 {
		s = fmt.Sprintf("no epoch of %s for token %v", e.Path, e.Token)
	}
	if e.Newest.Number != 0 {
		s += ": " + e.Newest.describe()
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns fencing.ErrStale and the cause.
func (e *StaleError) Unwrap() []error {
	if e.Err == nil {
		return []error{fencing.ErrStale}
	}
	return []error{fencing.ErrStale, e.Err}
}
