// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/session/nodes"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// find searches for the place's node after a create that was not answered. found is
// false if the create was not carried out, and then it never will be.
//
// Callers that search below the same parent at the same time share one search.
func find(ctx context.Context, s *client.Session, p *Place) (found bool, err error) {
	members, err := shared.Of(s).finds.Do(ctx, s.Session, p.Parent, p.Node, func(asked context.Context, unknown []*nodes.Node) (map[string]protocol.Member, error) {
		return client.Search(s.Context(), s.Session, p.Parent, unknown,
			func(path string) ([]string, *zk.Stat, error) { return s.ChildrenWhileAsked(asked, path) },
			func(path string) ([]byte, *zk.Stat, error) { return s.GetWhileAsked(asked, session.Ordinary, path) })
	})
	if err != nil {
		if ctx.Err() != nil {
			err = &recipes.Error{Op: "find", Path: p.Parent, Err: ctx.Err()}
		}
		return false, err
	}
	m, found := members[p.Nonce]
	if found {
		p.Path, p.Member = p.Parent+"/"+m.Name, m
	}
	return found, nil
}

// recover searches for the node of a create that was not answered. If that fails, it deletes the node.
func (a *Attempt) recover(ctx context.Context, s *client.Session) (found bool, err error) {
	q := a.Queue
	if ctx.Err() == nil && s.Ended() == nil {
		found, err = find(ctx, s, a.Place)
		q.Client.Report().Recovered(q.path, found, err)
		if err == nil {
			return found, nil
		}
	}
	q.Discard(s, a.Place)
	return false, &recipes.Error{Op: "join", Path: q.path, Err: errors.Join(a.Err, err)}
}
