// SPDX-License-Identifier: Apache-2.0

package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/wire"
)

// login returns the Login of a connection to server, nil if there is none. It runs the mechanism,
// which can block on other servers, until greetBy at the latest.
func (d *dialer) login(server string, greetBy time.Time) func(wire.Exchange) error {
	mechanism := d.config.SASL
	if mechanism == nil {
		return nil
	}
	return func(exchange wire.Exchange) error {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithDeadline(d.ctx, greetBy)
		defer cancel()
		_, err = within(ctx, &d.blocking, "the SASL", func() (struct{}, error) {
			return struct{}{}, mechanism.Authenticate(ctx, host, func(token []byte) ([]byte, error) {
				if ctx.Err() != nil {
					return nil, ctx.Err() // the connection may serve the client already
				}
				answer, err := exchange(token)
				if errors.Is(err, wire.ErrRefused) {
					err = fmt.Errorf("%w: %w", zk.ErrAuthFailed, err)
				}
				return answer, err
			})
		}, nil)
		return err
	}
}

// areRefused reports whether every server has refused the credentials at the last attempt. The caller
// holds mu.
func (d *dialer) areRefused() bool {
	for _, server := range d.servers {
		if !errors.Is(d.failures[server], zk.ErrAuthFailed) {
			return false
		}
	}
	return true
}

// endIfRefused ends a session that does not exist yet, if the server has refused the credentials of a
// client that had no session before: they are probably wrong. The credentials of a client that had one were
// right, and may be so again.
func (s *Session) endIfRefused(server string, err error) {
	if s.config.IsFirst && !s.link.state().wasAttached && errors.Is(err, zk.ErrAuthFailed) {
		s.End(fmt.Errorf("%s: %w", server, err))
	}
}
