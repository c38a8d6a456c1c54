// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"math"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
)

// Search returns which of unknown exist, by nonce.
//
// It first sends a write that the server refuses: that write passes the quorum behind the
// creates, so the listing that follows is complete. A node is identified by this session
// and its nonce. At most one exists, as each nonce is sent in one create only.
//
// list lists the children of the node at path, and get reads one of them. They bound how often a read is repeated whose answer ends the
// connection.
func Search(
	ctx context.Context, s *session.Session, path string, unknown []*nodes.Node,
	list func(path string) ([]string, *zk.Stat, error), get func(path string) ([]byte, *zk.Stat, error),
) (map[string]protocol.Member, error) {
	if err := flush(ctx, s, path, unknown[0]); err != nil {
		return nil, err
	}
	children, parent, err := list(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// For each prefix of a name that one of them can have, the number that the name's
	// number exceeds.
	above := make(map[string]int32)
	nonces := make(map[string]bool, len(unknown))
	for _, n := range unknown {
		nonces[n.Nonce] = true
		highest := n.Above
		if parent.Czxid != n.Tag || protocol.LastNumber(parent.Cversion, parent.NumChildren) < highest {
			highest = math.MinInt32 // the numbers have begun anew in another life of the parent, or gone back when the ensemble was restored
		}
		if seen, ok := above[n.Prefix]; ok {
			highest = min(highest, seen)
		}
		above[n.Prefix] = highest
	}
	var candidates []protocol.Member
	for _, m := range protocol.ParseMembers(children) {
		highest, ok := above[m.Prefix()]
		if !ok || !m.Overflowed() && m.Sequence <= highest || s.Nodes.At(path+"/"+m.Name) != nil {
			continue
		}
		candidates = append(candidates, m)
	}

	var mu sync.Mutex // guards what follows
	found := make(map[string]protocol.Member, len(unknown))
	var failed error
	err = session.Each(s, candidates, func(m protocol.Member) {
		data, stat, err := get(path + "/" + m.Name)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			failed = err
		case stat.EphemeralOwner == s.ID(), stat.EphemeralOwner == 0: // a lease
			if nonce := protocol.DecodeRecord(data).Nonce; nonces[nonce] {
				m.Czxid = stat.Czxid
				found[nonce] = m
			}
		}
	})
	return found, errors.Join(err, failed)
}

// flush waits for the answer to a write behind all of this session's creates below path.
func flush(ctx context.Context, s *session.Session, path string, n *nodes.Node) error {
	_, err := session.Retry(ctx, s, "find", path, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(path+"/"+protocol.NamePrefix(n.Tag, n.Nonce, protocol.Exclusive)+"flush", -1)
	})
	if session.OutcomeOf(err) == session.Refused && !errors.Is(err, zk.ErrSessionExpired) {
		return nil
	}
	return err
}
