// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
)

// maxUnpaced is the length of a queue whose listings are not spaced: they are about as small as
// other answers.
const maxUnpaced = 64

// pacePerMember is the time between two listings for callers that can wait, for each member of the
// first one: such listings cost 10,000 names a second at most, whatever the length of the queue and
// the number of callers. Without it, a thousand callers that ask every few seconds would get a
// thousand names each.
const pacePerMember = 100 * time.Microsecond

// listSoon is list for callers that can wait.
func (q *Queue) listSoon(ctx context.Context, s *client.Session) (*listing, error) {
	lst, err := shared.Of(s).paced.Do(ctx, s.Session, q.path, struct{}{}, func([]struct{}) (*listing, error) {
		q.mu.Lock()
		pause := time.Until(q.nextSoon)
		q.mu.Unlock()
		if pause > 0 {
			timer := time.NewTimer(pause)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-s.Context().Done():
			}
		}
		lst, err := list(s.Context(), s, q.path)
		if err == nil && len(lst.members) > maxUnpaced {
			q.mu.Lock()
			q.nextSoon = time.Now().Add(time.Duration(len(lst.members)) * pacePerMember)
			q.mu.Unlock()
		}
		return lst, err
	})
	if err != nil && ctx.Err() != nil {
		err = &Error{Op: "list", Path: q.path, Err: ctx.Err()}
	}
	return lst, err
}
