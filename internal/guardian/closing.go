// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// close closes the session, on whichever server answers first. It begins with the first server, and with each other one T/200
// later. It tries a server again T/200 after a failure, or T/24 after an attempt that is not answered, without giving up any
// attempt: a server that does not answer now may do so later. close ends when the session is closed, when a server reports that it
// has ended, is another or is not to be closed, or when ctx is done: more attempts would only prolong the session.
func (s *Session) close(ctx context.Context, dial DialFunc) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	step := max(s.Timeout/200, time.Millisecond)
	failures := make([]error, len(s.Servers))
	final := make(chan error, 1)
	var attempts sync.WaitGroup
	for i, server := range s.Servers {
		attempts.Go(func() {
			if !pause(ctx, time.Duration(i)*step) {
				return
			}
			failed := make(chan error, 1)
			for {
				attempts.Go(func() {
					err := s.closeOn(ctx, dial, server)
					if !isFinal(err) {
						select {
						case failed <- err:
						case <-ctx.Done():
						}
						return
					}
					select {
					case final <- err: // the first one: the others then find that the session has ended
						cancel()
					default:
					}
				})
				select {
				case err := <-failed:
					failures[i] = fmt.Errorf("%s: %w", server, err)
					if !pause(ctx, step) {
						return
					}
				case <-ctx.Done():
					return
				case <-time.After(s.Timeout / 24):
				}
			}
		})
	}
	attempts.Wait()
	select {
	case err := <-final:
		return err
	default:
		return errors.Join(append(failures, ctx.Err())...)
	}
}

// pause waits, and reports whether ctx is not done.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// Rehearse opens a session on the servers, drops the connection, and closes the session as after a death. So a server that
// requires TLS or a login, or that opens new sessions in place of those that it is presented, is found before it matters.
func Rehearse(ctx context.Context, dial DialFunc, servers []string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout/2)
	defer cancel()
	s := &Session{Timeout: timeout}
	var failures []error
	for i, server := range servers {
		bounded, cancel := context.WithTimeout(ctx, timeout/8)
		err := s.open(bounded, dial, server)
		cancel()
		if err == nil {
			// Through another server, if there is one: that is the harder case.
			s.Servers = append(append(s.Servers, servers[i+1:]...), servers[:i+1]...)
			break
		}
		failures = append(failures, fmt.Errorf("%s: %w", server, err))
	}
	if len(s.Servers) == 0 {
		return fmt.Errorf("rehearsal: open a session: %w", errors.Join(failures...))
	}
	// One server at a time: of two that close the session, the slower one may have done so.
	isSent := false
	for _, server := range s.Servers {
		bounded, cancel := context.WithTimeout(ctx, timeout/8)
		err := s.closeOn(bounded, dial, server)
		cancel()
		switch {
		case err == nil, errors.Is(err, errGone) && isSent:
			return nil
		case isFinal(err):
			return fmt.Errorf("rehearsal: close a session: %s: %w", server, err)
		}
		isSent = isSent || !errors.Is(err, errNotSent)
		failures = append(failures, fmt.Errorf("%s: %w", server, err))
	}
	return fmt.Errorf("rehearsal: close a session: %w", errors.Join(failures...))
}
