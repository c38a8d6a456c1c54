// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A queueSession is a session of the client. Contenders that need the same answer of the
// servers at the same time share one request.
type queueSession struct {
	*session.Session
	settings *settings
	report   *reporter

	lists   session.Sharing[struct{}, *listing]
	parents session.Sharing[struct{}, parent]
	finds   session.Sharing[*session.Node, map[string]member]
}

// openSession starts a session. It exists once Opened is closed.
func openSession(settings *settings, report *reporter) (*queueSession, error) {
	s := &queueSession{settings: settings, report: report}
	config := session.Config{
		Servers:   settings.servers,
		Timeout:   settings.sessionTimeout,
		ACL:       settings.acl,
		TLS:       settings.tls,
		Dial:      settings.dial,
		Heartbeat: settings.tuning.Heartbeat,
		Wrap:      func(op, path string, err error) error { return &Error{Op: op, Path: path, Err: err} },
		Find:      s.findPaths,
		Revoked:   revocationOf,
		Events:    report,
		Logger:    clientLogger{report},
	}
	for _, auth := range settings.auth {
		config.Auth = append(config.Auth, session.Auth(auth))
	}
	var err error
	if s.Session, err = session.Open(config); err != nil {
		return nil, err
	}
	return s, nil
}

// findPaths finds nodes for which no contender waits any more. The owner of the session
// calls it.
func (s *queueSession) findPaths(ctx context.Context, parent string, nodes []*session.Node) (map[string]string, error) {
	members, err := search(ctx, s.Session, parent, nodes)
	paths := make(map[string]string, len(members))
	for nonce, m := range members {
		paths[nonce] = parent + "/" + m.name
	}
	return paths, err
}

// list returns a listing that the server made after the call began.
func (s *queueSession) list(ctx context.Context, path string) (*listing, error) {
	lst, err := s.lists.Do(ctx, s.Session, path, struct{}{}, func([]struct{}) (*listing, error) {
		children, stat, err := s.Children(s.Context(), path)
		if errors.Is(err, zk.ErrNoNode) {
			return &listing{highest: -1, plain: true}, nil
		}
		if err != nil {
			return nil, err
		}
		return newListing(children, stat), nil
	})
	if err != nil && ctx.Err() != nil {
		err = &Error{Op: "list", Path: path, Err: ctx.Err()}
	}
	return lst, err
}
