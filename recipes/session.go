// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/report"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A queueSession is a session of the client. Contenders that need the same answer of the
// servers at the same time share one request.
type queueSession struct {
	*session.Session
	settings *settings
	report   *report.Reporter

	lists   session.Sharing[struct{}, *listing]
	shown   session.Sharing[struct{}, *listing]
	paced   session.Sharing[struct{}, *listing]
	parents session.Sharing[struct{}, parent]
	finds   session.Sharing[*session.Node, map[string]protocol.Member]
}

// openSession starts a session, which exists once Opened is closed. first reports whether the client
// had none before.
func openSession(settings *settings, to *report.Reporter, first bool) (*queueSession, error) {
	s := &queueSession{settings: settings, report: to}
	config := session.Config{
		Servers:   settings.servers,
		Timeout:   settings.sessionTimeout,
		ACL:       settings.acl,
		SASL:      settings.sasl,
		TLS:       settings.tls,
		Dial:      settings.dial,
		IsFirst:   first,
		Heartbeat: settings.tuning.Heartbeat,
		Wrap:      settings.wrap,
		Find:      s.findPaths,
		Revoked:   revocationOf,
		Events:    to,
		Logger:    to,

		Containers: &settings.containers,
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

// wrap returns the error of an operation of the session.
func (s *settings) wrap(op, path string, err error) error {
	if s.sasl == nil && op != "authenticate" && errors.Is(err, zk.ErrAuthFailed) {
		err = fmt.Errorf("%w: the server requires SASL: set Options.SASL", err)
	}
	return &Error{Op: op, Path: path, Err: err}
}

// findPaths finds nodes for which no contender waits any more. The owner of the session
// calls it.
func (s *queueSession) findPaths(ctx context.Context, parent string, nodes []*session.Node) (map[string]string, error) {
	paths := make(map[string]string, len(nodes))
	var contenders []*session.Node
	for _, n := range nodes {
		if n.Name == "" {
			contenders = append(contenders, n)
			continue
		}
		own, err := s.owns(ctx, n)
		if err != nil {
			return nil, err
		}
		if own {
			paths[n.Nonce] = n.NamedPath()
		}
	}
	if len(contenders) == 0 {
		return paths, nil
	}
	members, err := search(ctx, s.Session, parent, contenders)
	for nonce, m := range members {
		paths[nonce] = parent + "/" + m.Name
	}
	return paths, err
}

// owns reports whether the node of a registration, whose create was not answered, exists. The
// write that precedes the read passes the quorum behind the create: see search.
func (s *queueSession) owns(ctx context.Context, n *session.Node) (bool, error) {
	if err := flush(ctx, s.Session, strings.TrimSuffix(n.Parent, "/"), n); err != nil {
		return false, err
	}
	_, stat, err := s.Get(ctx, n.NamedPath())
	if errors.Is(err, zk.ErrNoNode) {
		return false, nil
	}
	return err == nil && stat.EphemeralOwner == s.ID(), err
}

// list returns a listing that the server made after the call began.
func (s *queueSession) list(ctx context.Context, path string) (*listing, error) {
	return s.listBy(ctx, &s.lists, path, s.Children)
}

// show is list for a caller that only shows the queue: it returns an error if connections end in place of the answer.
func (s *queueSession) show(ctx context.Context, path string) (*listing, error) {
	return s.listBy(ctx, &s.shown, path, s.ChildrenAtMost)
}

func (s *queueSession) listBy(
	ctx context.Context, shared *session.Sharing[struct{}, *listing], path string,
	request func(context.Context, string) ([]string, *zk.Stat, error),
) (*listing, error) {
	lst, err := shared.Do(ctx, s.Session, path, struct{}{}, func([]struct{}) (*listing, error) {
		children, stat, err := request(s.Context(), path)
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
