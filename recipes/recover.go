// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"
)

// find looks for the place's node after a create that was not answered. found is
// false if the create was not carried out, and then it never will be.
//
// Callers that look below the same parent at the same time share one search.
func (s *session) find(ctx context.Context, p *place) (found bool, err error) {
	members, err := s.finds.ask(ctx, s, p.line, p, func(places []*place) (map[string]member, error) {
		return s.search(s.ctx, p.line, places)
	})
	if err != nil {
		if ctx.Err() != nil {
			err = &Error{Op: "find", Path: p.line, Err: ctx.Err()}
		}
		return false, err
	}
	m, found := members[p.nonce]
	if found {
		p.path, p.member = p.line+"/"+m.name, m
	}
	return found, nil
}

// search returns the nodes of those of places that have one, by nonce.
//
// It first has a write refused: that goes through the quorum behind the creates, so
// that what the server shows afterwards is complete. A place's node is the one that has
// our session and the place's nonce: there is one at most, for a create is sent once
// under a nonce.
func (s *session) search(ctx context.Context, line string, places []*place) (map[string]member, error) {
	if err := s.flush(ctx, line, places[0]); err != nil {
		return nil, err
	}
	children, parent, err := s.children(ctx, line)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// What each name that can be a node of ours begins with, and the number that it is
	// above.
	above := make(map[string]int32)
	nonces := make(map[string]bool, len(places))
	for _, p := range places {
		nonces[p.nonce] = true
		prefix, highest := namePrefix(p.tag, p.nameNonce()), p.highest
		if parent.Czxid != p.tag {
			highest = math.MinInt32 // in another life of the parent its numbers have begun anew
		}
		if seen, ok := above[prefix]; ok {
			highest = min(highest, seen)
		}
		above[prefix] = highest
	}
	var candidates []member
	s.mu.Lock()
	for _, m := range parseMembers(children) {
		highest, ok := above[m.name[:max(0, strings.LastIndex(m.name, "lock-"))+len("lock-")]]
		if !ok || !m.late() && m.sequence <= highest || s.ledger.byPath[line+"/"+m.name] != nil {
			continue
		}
		candidates = append(candidates, m)
	}
	s.mu.Unlock()

	var mu sync.Mutex // guards what follows
	found := make(map[string]member, len(places))
	var failed error
	err = each(s, candidates, func(m member) {
		data, stat, err := s.get(ctx, line+"/"+m.name)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode):
		case err != nil:
			failed = err
		case stat.EphemeralOwner == s.sessionID():
			if nonce := decodeRecord(data).Nonce; nonces[nonce] {
				m.czxid = stat.Czxid
				found[nonce] = m
			}
		}
	})
	return found, errors.Join(err, failed)
}

// flush returns once a write behind all of this session's creates below line was
// answered.
func (s *session) flush(ctx context.Context, line string, p *place) error {
	_, err := ask(ctx, s, "find", line, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(line+"/"+namePrefix(p.tag, p.nonce)+"flush", -1)
	})
	if outcomeOf(err) == refused && !errors.Is(err, zk.ErrSessionExpired) {
		return nil
	}
	return err
}
