// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

// A queueSession is a session of the client, with what contenders that ask the same of the
// servers at the same time share.
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
	config := session.Config{
		Servers:   settings.servers,
		Timeout:   settings.sessionTimeout,
		ACL:       settings.acl,
		TLS:       settings.tls,
		Dial:      settings.dial,
		Heartbeat: settings.tuning.Heartbeat,
		Wrap:      func(op, path string, err error) error { return &Error{Op: op, Path: path, Err: err} },
		Find:      findPaths,
		Events:    report,
		Logger:    clientLogger{report},
	}
	for _, auth := range settings.auth {
		config.Auth = append(config.Auth, session.Auth(auth))
	}
	s, err := session.Open(config)
	if err != nil {
		return nil, err
	}
	return &queueSession{Session: s, settings: settings, report: report}, nil
}

// A place is one node of ours in a queue.
type place struct {
	*session.Node
	inName bool // the nonce is in the node's name as well

	// Set when the node is known, before the session is told.
	member   member
	verified bool // the node belongs to the parent's life that its name says
}

func newPlace(line string, tag int64, nonce string) *place {
	return &place{Node: session.NewNode(line, tag, nonce)}
}

// know notes which node is the place's.
func (p *place) know(path string, czxid int64) error {
	m, ok := parseMember(path[strings.LastIndexByte(path, '/')+1:])
	if !ok {
		return &Error{Op: "join", Path: p.Parent, Err: fmt.Errorf("server returned the node name %q, which has no sequence number", path)}
	}
	m.czxid = czxid
	p.Path, p.member = path, m
	return nil
}

// nameNonce is what the name has besides the tag.
func (p *place) nameNonce() string {
	if p.inName {
		return p.Nonce
	}
	return ""
}

// An ending ends a claim with its session, or with its node.
type ending struct{ claim *Claim }

// End closes Done before it returns. The caller of Close waits, and the nodes go when the
// session is closed: for it the contexts are cancelled before. Other callers must not wait.
func (e ending) End(cause error) (report func()) {
	end := e.claim.endElsewhere
	if errors.Is(cause, ErrClosed) {
		end = e.claim.end
	}
	if !end(cause) {
		return nil
	}
	return func() { e.claim.session.report.lost(e.claim, cause) }
}
