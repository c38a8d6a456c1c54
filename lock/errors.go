// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// ErrLocked is returned by TryLock when somebody holds the lock or waits for it.
var ErrLocked = errors.New("locked")

// A HeldError says who is in the way of TryLock. errors.Is finds ErrLocked.
type HeldError struct {
	Path   string            // of the lock
	Holder recipes.Contender // the first in line, which as a rule is the holder
}

// Error names the lock, its holder and since when.
func (e *HeldError) Error() string {
	if e.Holder.Since.IsZero() {
		return fmt.Sprintf("lock %s: held by %q (%s)", e.Path, e.Holder.Owner, e.Holder.Name)
	}
	return fmt.Sprintf("lock %s: held by %q since %s (%s)", e.Path, e.Holder.Owner, e.Holder.Since.Format("2006-01-02 15:04:05Z07:00"), e.Holder.Name)
}

// Is says that it is an ErrLocked.
func (e *HeldError) Is(target error) bool { return target == ErrLocked }
