// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	err := inTurn(ctx, servers, timeout, func(ctx context.Context, server string) (bool, error) {
		err := s.open(ctx, dial, server)
		if err == nil {
			// Through another server, if there is one: that is the harder case.
			i := slices.Index(servers, server)
			s.Servers = slices.Concat(servers[i+1:], servers[:i+1])
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("rehearsal: open a session: %w", err)
	}
	isSent := false // a server may have closed the session, and not have answered yet
	err = inTurn(ctx, s.Servers, timeout, func(ctx context.Context, server string) (bool, error) {
		err := s.closeOn(ctx, dial, server)
		if isSent && errors.Is(err, errGone) {
			err = nil
		}
		isSent = isSent || !errors.Is(err, errNotSent)
		return isFinal(err), err
	})
	if err != nil {
		return fmt.Errorf("rehearsal: close a session: %w", err)
	}
	return nil
}

// inTurn tries one server after the other, for T/8 each, until an attempt has decided, and returns the error of that. It tries them
// again if one has not answered in time.
func inTurn(ctx context.Context, servers []string, timeout time.Duration, attempt func(ctx context.Context, server string) (decided bool, err error)) error {
	for {
		var failures []error
		slow := false
		for _, server := range servers {
			bounded, cancel := context.WithTimeout(ctx, timeout/8)
			decided, err := attempt(bounded, server)
			slow = slow || bounded.Err() != nil
			cancel()
			if err != nil {
				err = fmt.Errorf("%s: %w", server, err)
			}
			if decided {
				return err
			}
			failures = append(failures, err)
		}
		if !slow || ctx.Err() != nil {
			return errors.Join(append(failures, ctx.Err())...)
		}
	}
}
