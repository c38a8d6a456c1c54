// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/internal/session"
)

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

// recurs reports whether another node can come to have the same name: where the counter
// sticks, numbers make no name unique, and without a nonce a late delete would hit
// a stranger.
func (p *place) recurs() bool { return p.member.late() && !p.inName }

// prefix is what the path of the place's node begins with: the server adds the
// number.
func (p *place) prefix() string { return p.Parent + "/" + p.Prefix }
