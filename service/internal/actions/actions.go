// SPDX-License-Identifier: Apache-2.0

// Package actions keeps the newest administrative actions of all replicas in ZooKeeper.
package actions

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/ring"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
)

// Kept is how many actions of one namespace are kept. One takes 4 kB at most.
const Kept = 256

// A Store keeps the actions in each namespace as nodes of their own, one for each: in one node, long reasons would exceed what
// a node can hold. Those in one namespace displace none in another.
type Store struct {
	client *recipes.Client
	path   string
	acl    []zk.ACL
	logger *slog.Logger
}

// New returns the Store below path, whose nodes have that ACL.
func New(client *recipes.Client, path string, acl []zk.ACL, logger *slog.Logger) *Store {
	return &Store{client, path, acl, logger}
}

func (s *Store) ring(namespace string) (*ring.Ring, error) {
	return ring.New(s.client, s.path+"/"+namespace, Kept, s.acl)
}

// Begin records an action that is about to be carried out, and returns the name of its entry. After an error the entry may
// exist.
func (s *Store) Begin(ctx context.Context, e audit.Event) (name string, err error) {
	ring, data, err := s.encode(e)
	if err != nil {
		return "", err
	}
	return ring.Append(ctx, data)
}

// End records the outcome of an action, and deletes those that are kept no longer.
func (s *Store) End(ctx context.Context, name string, e audit.Event) error {
	ring, data, err := s.encode(e)
	if err == nil {
		err = ring.Replace(ctx, name, data)
	}
	if err != nil {
		return err
	}
	if err := ring.Trim(ctx); err != nil {
		s.logger.Warn("old administrative actions not deleted yet", "namespace", e.Namespace, "error", err)
	}
	return nil
}

// Withdraw deletes the entry of an action that has changed nothing.
func (s *Store) Withdraw(ctx context.Context, name string, e audit.Event) error {
	ring, err := s.ring(e.Namespace)
	if err != nil {
		return err
	}
	return ring.Delete(ctx, name)
}

// List returns the newest actions in some namespaces: those that may returns true for. The newest is first, by the clocks of
// the replicas. It costs two reads for each namespace, and one for each action.
func (s *Store) List(ctx context.Context, may func(namespace string) bool, limit int) ([]audit.Event, error) {
	parent, err := node.New(s.client, s.path)
	if err != nil {
		return nil, err
	}
	namespaces, err := parent.Children(ctx)
	if err != nil {
		return nil, err
	}
	var heads []*head
	for _, namespace := range namespaces {
		if !may(namespace) {
			continue
		}
		ring, err := s.ring(namespace)
		if err != nil {
			return nil, err
		}
		h := &head{}
		var stop func()
		h.pull, stop = iter.Pull2(ring.Entries(ctx))
		defer stop()
		if heads, err = h.next(heads); err != nil {
			return nil, err
		}
	}
	var events []audit.Event
	for len(heads) > 0 && len(events) < limit {
		newest := slices.MaxFunc(heads, func(a, b *head) int { return a.event.Time.Compare(b.event.Time) })
		events = append(events, newest.event)
		heads = slices.DeleteFunc(heads, func(h *head) bool { return h == newest })
		if heads, err = newest.next(heads); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// A head is the newest action of a namespace that is not listed yet.
type head struct {
	event audit.Event
	pull  func() (ring.Entry, error, bool)
}

// next reads the next action, and adds h to heads if there is one. A node that another program has created there is not an
// action.
func (h *head) next(heads []*head) ([]*head, error) {
	for {
		entry, err, ok := h.pull()
		if err != nil || !ok {
			return heads, err
		}
		h.event = audit.Event{}
		if json.Unmarshal(entry.Data, &h.event) == nil {
			return append(heads, h), nil
		}
	}
}

// encode returns the ring of an action, and its entry.
func (s *Store) encode(e audit.Event) (*ring.Ring, []byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, nil, fmt.Errorf("record %s: %w", e.Action, err)
	}
	ring, err := s.ring(e.Namespace)
	return ring, data, err
}
