// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
)

// A place is one node of this client in a queue.
type place struct {
	*session.Node
	mode   Mode
	inName bool // a nonce is in the node's name as well
	behind bool // the place had a predecessor

	// Only of a contender that may step back.
	candidate bool
	listed    *listing // the last one that decided for the place

	// Only of a contender that claims permits.
	limit  limitRead // as it was last read
	record []byte    // the node's data

	// Set when the node is known, before the session is notified.
	member   protocol.Member
	verified bool // the node belongs to the life of the parent that its name gives
}

func newPlace(queue string, tag int64, nonce string) *place {
	return &place{Node: session.NewNode(queue, tag, nonce)}
}

// setCreated records the node that the create made.
func (p *place) setCreated(path string, czxid int64) error {
	m, ok := protocol.ParseMember(path[strings.LastIndexByte(path, '/')+1:])
	if !ok {
		return &Error{Op: "join", Path: p.Parent, Err: fmt.Errorf("server returned the node name %q, which has no sequence number", path)}
	}
	m.Czxid = czxid
	p.Path, p.member = path, m
	return nil
}

// nameNonce returns the nonce if the node's name has it, and otherwise an empty string.
func (p *place) nameNonce() string {
	if p.inName {
		return p.Nonce
	}
	return ""
}

// create returns the request that creates the node with this data.
func (p *place) create(data []byte, acl []zk.ACL) *zk.CreateRequest {
	flags := int32(zk.FlagEphemeral | zk.FlagSequence)
	if p.Lease {
		flags = zk.FlagSequence
	}
	return &zk.CreateRequest{Path: p.prefix(), Data: data, Acl: acl, Flags: flags}
}

// recurs reports whether another node can get the same name: where the counter sticks,
// numbers make no name unique, and without a nonce a late delete could hit another
// client's node.
func (p *place) recurs() bool { return p.member.Overflowed() && !p.inName }

// prefix returns the path of the place's node without the number, which the server
// appends.
func (p *place) prefix() string { return p.Parent + "/" + p.Prefix }
