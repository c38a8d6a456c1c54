// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// A Session is a session of the client.
type Session struct {
	*session.Session
	client *Client
	slots  slots
}

// Client returns the client that has opened the session.
func (s *Session) Client() *Client { return s.client }

// openSession starts a session of the client, which exists once Opened is closed. first reports whether the client
// had none before.
func openSession(c *Client, first bool) (*Session, error) {
	s := &Session{client: c}
	settings := c.config
	config := session.Config{
		Servers:   settings.Servers,
		Timeout:   settings.SessionTimeout,
		ACL:       settings.ACL,
		Auth:      settings.Auth,
		SASL:      settings.SASL,
		TLS:       settings.TLS,
		Dial:      settings.Dial,
		IsFirst:   first,
		Heartbeat: settings.Tuning.Heartbeat,
		MaxReply:  settings.MaxReply,
		Wrap:      settings.wrap,
		Find:      s.findPaths,
		Revoked:   settings.Revoked,
		Events:    c.report,
		Logger:    c.report,

		Containers: &settings.Containers,
	}
	var err error
	if s.Session, err = session.Open(config); err != nil {
		return nil, err
	}
	return s, nil
}

// wrap returns the error of an operation of the session.
func (s *Config) wrap(op, path string, err error) error {
	if s.SASL == nil && op != "authenticate" && errors.Is(err, zk.ErrAuthFailed) {
		err = fmt.Errorf("%w: the server requires SASL: set Options.SASL", err)
	}
	if errors.Is(err, session.ErrLargeReply) {
		err = fmt.Errorf("the reply has more than the %d bytes of Options.MaxReply", s.MaxReply)
	}
	return s.Fail(op, path, err)
}

// findPaths finds nodes for which no contender waits any more. It returns those that it found even if others could not be read. Its caller
// backs off if connections end in place of the answers.
func (s *Session) findPaths(ctx context.Context, parent string, unknown []*nodes.Node) (map[string]string, error) {
	paths := make(map[string]string, len(unknown))
	var contenders []*nodes.Node
	var failed []error
	for _, n := range unknown {
		if n.Kind != nodes.Named {
			contenders = append(contenders, n)
			continue
		}
		own, err := s.owns(ctx, n)
		if err != nil {
			failed = append(failed, err)
		}
		if own {
			paths[n.Nonce] = n.NamedPath()
		}
	}
	if len(contenders) == 0 {
		return paths, errors.Join(failed...)
	}
	members, err := Search(ctx, s.Session, parent, contenders,
		func(path string) ([]string, *zk.Stat, error) { return s.ChildrenAtMost(ctx, path) },
		func(path string) ([]byte, *zk.Stat, error) { return s.GetAtMost(ctx, path) })
	for nonce, m := range members {
		paths[nonce] = parent + "/" + m.Name
	}
	return paths, errors.Join(append(failed, err)...)
}

// owns reports whether the node of a registration, whose create was not answered, exists. The
// write that precedes the read passes the quorum behind the create: see search.
func (s *Session) owns(ctx context.Context, n *nodes.Node) (bool, error) {
	if err := flush(ctx, s.Session, strings.TrimSuffix(n.Parent, "/"), n); err != nil {
		return false, err
	}
	_, stat, err := s.GetAtMost(ctx, n.NamedPath())
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil && stat.EphemeralOwner == s.ID(), err
}
