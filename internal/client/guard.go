// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
)

// protect registers the session with the guardian before it is published: even the node of a dead waiter blocks a queue. The first
// session must be guarded, or protect returns an error. A later one, whose client was connected successfully, waits T/24 at most,
// because claims wait for it.
func (c *Client) protect(s *Session) error {
	g, isFirst := c.config.Guard, c.Newest() == nil
	limit := s.Timeout() / 24
	if isFirst {
		limit = s.Timeout()
	}
	ctx, cancel := context.WithTimeout(s.Context(), limit)
	defer cancel()
	servers := []string{s.Server()}
	for _, server := range c.config.Servers {
		if server != servers[0] {
			servers = append(servers, server)
		}
	}
	var err error
	if isFirst {
		err = g.Rehearse(ctx, servers, s.Timeout())
	}
	if err == nil {
		err = g.Protect(ctx, servers, s.ID(), s.Password(), s.Timeout())
	}
	switch {
	case err == nil:
	case isFirst:
		return fmt.Errorf("guard: %w", err)
	default:
		c.report.Unguarded(s.ID(), err)
	}
	return nil
}

// Unguarded returns why the guardian has not acknowledged the session, nil if it has, or if the client has none.
func (c *Client) Unguarded(session int64) error {
	if c.config.Guard == nil {
		return nil
	}
	return c.config.Guard.Guarded(session)
}
