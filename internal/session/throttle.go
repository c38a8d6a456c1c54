// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
)

// isThrottled reports whether a server refused the request because it is overloaded: ThrottledOp, of servers with a
// throttled_op_wait_time. Nothing was carried out. The ZooKeeper client has no name for that, and no server sends this one, so the
// wire puts it in its place.
func isThrottled(err error) bool { return errors.Is(err, zk.ErrAPIError) }

// errThrottled reports that a server answered with ThrottledOp for as long as the caller waited.
var errThrottled = errors.New("server is overloaded and throttles requests (ThrottledOp)")

// A backOff spaces the attempts of one request that a server refuses because it is overloaded. The zero value is ready for use.
// Requests that failed for another reason are not delayed.
type backOff struct {
	refused int // attempts
}

// wait waits until a request that failed with err is to be sent again: from T/64 on, twice as long after each refusal, T at most. It
// returns an error if ctx or the session ends first.
func (b *backOff) wait(ctx context.Context, s *sender, err error) error {
	if !isThrottled(err) {
		return nil
	}
	pause := s.Timeout() / 64 << min(b.refused, 6)
	b.refused++
	timer := time.NewTimer(pause/2 + rand.N(pause/2+1)) // without the jitter, all callers would return at the same time
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return s.Ended()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ctx.Err(), errThrottled)
	}
}
