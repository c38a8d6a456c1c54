// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// MaxUnpaced is the length of a queue whose listings are not spaced: they are about as small as
// other answers.
const MaxUnpaced = 64

// PacePerMember is the time between two listings for callers that can wait, for each member of the
// first one: such listings cost 10,000 names a second at most, whatever the length of the queue and
// the number of callers. Without it, a thousand callers that ask every few seconds would get a
// thousand names each.
const PacePerMember = 100 * time.Microsecond

// ListSoon is list for callers that can wait.
func (q *Queue) ListSoon(ctx context.Context, s *client.Session) (*Listing, error) {
	lst, err := shared.Of(s).paced.Do(ctx, s.Session, q.path, struct{}{}, func(asked context.Context, _ []struct{}) (*Listing, error) {
		q.mu.Lock()
		pause := time.Until(q.nextSoon)
		q.mu.Unlock()
		if pause > 0 {
			select {
			case <-time.After(pause):
			case <-asked.Done():
				return nil, context.Cause(asked)
			}
		}
		lst, err := List(asked, s, q.path)
		if err == nil && len(lst.Members) > MaxUnpaced {
			q.mu.Lock()
			q.nextSoon = time.Now().Add(time.Duration(len(lst.Members)) * PacePerMember)
			q.mu.Unlock()
		}
		return lst, err
	})
	if err != nil && ctx.Err() != nil {
		err = &recipes.Error{Op: "list", Path: q.path, Err: ctx.Err()}
	}
	return lst, err
}
