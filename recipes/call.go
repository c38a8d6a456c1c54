// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// call runs one request of the session, which has no bound of its own, and
// returns no later than ctx ends. A request that is given up goes on: the
// session waits for it, and nobody is told its outcome. It is for requests that
// need not be known to have been carried out: reads, and what is asked again.
//
// It is sent only while the session is attached. A request that waits in the
// client's queue could otherwise outlive its caller by the whole outage.
func call[R any](ctx context.Context, s *session, request func(*zk.Conn) (R, error)) (R, error) {
	for {
		value, err := callOnce(ctx, s, request)
		if !errors.Is(err, zk.ErrNoServer) || s.ctx.Err() != nil {
			return value, err
		}
		// Given back: it came into the client's queue as its connection ended.
	}
}

func callOnce[R any](ctx context.Context, s *session, request func(*zk.Conn) (R, error)) (R, error) {
	var zero R
	if err := s.attached(ctx); err != nil {
		return zero, unsentErr{err}
	}
	s.look(s.timeout() / 8) // the server may not answer
	type reply struct {
		value R
		err   error
	}
	replies := make(chan reply, 1) // with room for one that nobody waits for
	err := s.spawn(func() {
		value, err := request(s.conn)
		if errors.Is(err, zk.ErrSessionExpired) {
			s.end(errExpired) // it may be a while until the connection tells
		}
		replies <- reply{value, err}
	})
	if err != nil {
		return zero, unsentErr{err}
	}
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
		return zero, fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	}
}

// callThrough runs one request of the session on the caller's goroutine, and sees
// it through to its answer, whatever becomes of ctx meanwhile: for requests whose
// outcome has to be known before the caller may go, and that are too many for a
// goroutine each. (Two more wake-ups were a tenth of a lock cycle.)
//
// It waits for a server no longer than ctx, and for an answer no longer than about
// T/4: the keeper leaves a server that is silent for T/8, and has a request that
// was still in the client's queue then given back.
func callThrough[R any](ctx context.Context, s *session, request func(*zk.Conn) (R, error)) (R, error) {
	for {
		var zero R
		if err := s.attached(ctx); err != nil {
			return zero, unsentErr{err}
		}
		end, err := s.begin()
		if err != nil {
			return zero, unsentErr{err}
		}
		s.look(s.timeout() / 8)
		value, err := request(s.conn)
		end()
		switch {
		case errors.Is(err, zk.ErrNoServer) && s.ctx.Err() == nil:
			continue // given back
		case errors.Is(err, zk.ErrSessionExpired):
			s.end(errExpired) // it may be a while until the connection tells
		}
		return value, err
	}
}
