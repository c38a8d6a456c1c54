// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/deadline"
)

// A sender sends the requests of a session. It is safe for concurrent use.
type sender struct {
	*lifetime
	config Config
	events Events
	conn   *zk.Conn
	lease  *deadline.Lease
	turns  turns
	groups groups
	alarm  *background.Alarm // wakes the owner
}

// A Sender is a Session, or a part of one.
type Sender interface{ self() *sender }

func (s *sender) self() *sender { return s }

// Timeout returns T, as negotiated.
func (s *sender) Timeout() time.Duration { return s.lease.Timeout() }

// patience returns how long a server may answer nothing before the session leaves it. Leaving loses the answers under way,
// so the session must not leave a server that is only slow. Claims survive round trips of up to 5T/24 (the deadline, for
// heartbeats every T/6), so a server that is silent for longer costs the claim in any case. If the last proof was sent just
// before the server froze, there is as much time left for two servers that do not answer, and for one that does.
func (s *sender) patience() time.Duration { return s.Timeout() * 5 / 24 }

// Fail returns the error of an operation of the session.
func (s *sender) Fail(op, path string, err error) error { return s.config.Wrap(op, path, err) }

// WakeWithin wakes the owner within d.
func (s *sender) WakeWithin(d time.Duration) { s.alarm.By(time.Now().Add(d)) }

// TakeTurn waits until the session is attached and fewer than MaxInFlight ordinary
// requests are in flight, of which some are reserved: see [turns]. The caller ends the turn once
// the request has been answered.
func (s *sender) TakeTurn(ctx context.Context, as Role) (Turn, error) {
	mine, ok := s.turns.take(as, s.ctx, ctx)
	switch {
	case ok:
	case s.ctx.Err() != nil:
		return Turn{}, s.Ended()
	default:
		return Turn{}, ctx.Err()
	}
	if err := s.awaitAttached(ctx); err != nil {
		mine.End()
		return Turn{}, err
	}
	s.WakeWithin(s.patience()) // the server may not answer
	return mine, nil
}

// awaitAttached waits until a server serves the session.
func (s *sender) awaitAttached(ctx context.Context) error {
	attach := s.Attached()
	if over := s.Ended(); over != nil {
		return over
	}
	select {
	case <-attach:
		return nil
	default:
	}
	select {
	case <-attach:
		return nil
	case <-s.ctx.Done():
		return s.Ended()
	case <-ctx.Done():
		return fmt.Errorf("%w (not connected: %w)", ctx.Err(), s.dialer.why())
	}
}

// endIfExpired ends the session if err reports that it has expired, without waiting until the
// connection reports the expiry.
func (s *sender) endIfExpired(err error) {
	if errors.Is(err, zk.ErrSessionExpired) {
		s.End(ErrExpired)
	}
}

// mayRepeat reports whether an idempotent request that failed with err is to be sent again.
func (s *sender) mayRepeat(err error) bool { return Retryable(err) && s.Ended() == nil }

// mayResend reports whether a request that failed with err is to be sent again, idempotent or
// not.
func (s *sender) mayResend(err error) bool { return OutcomeOf(err) == Unsent && s.mayRepeat(err) }
