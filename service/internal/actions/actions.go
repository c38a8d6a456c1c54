// SPDX-License-Identifier: Apache-2.0

// Package actions keeps the newest administrative actions of all replicas in ZooKeeper.
package actions

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/service/internal/audit"
)

// Kept is how many actions are kept. One takes 4 kB at most.
const Kept = 256

// A Store keeps actions as nodes of their own, one for each: in one node, long reasons would exceed what a node can hold.
type Store struct {
	ring   *recipes.Ring
	logger *slog.Logger
}

// New returns the Store at path, whose nodes have that ACL.
func New(client *recipes.Client, path string, acl []zk.ACL, logger *slog.Logger) (*Store, error) {
	ring, err := recipes.NewRing(client, path, Kept, acl)
	if err != nil {
		return nil, err
	}
	return &Store{ring, logger}, nil
}

// Begin records an action that is about to be carried out, and returns the name of its entry. After an error the entry may
// exist.
func (s *Store) Begin(ctx context.Context, e audit.Event) (name string, err error) {
	data, err := encode(e)
	if err != nil {
		return "", err
	}
	return s.ring.Append(ctx, data)
}

// End records the outcome of an action, and deletes those that are kept no longer.
func (s *Store) End(ctx context.Context, name string, e audit.Event) error {
	data, err := encode(e)
	if err == nil {
		err = s.ring.Replace(ctx, name, data)
	}
	if err != nil {
		return err
	}
	if err := s.ring.Trim(ctx); err != nil {
		s.logger.Warn("old administrative actions not deleted yet", "error", err)
	}
	return nil
}

// List returns the actions, the newest first. A node that another program has created there is not an action.
func (s *Store) List(ctx context.Context) ([]audit.Event, error) {
	entries, err := s.ring.Entries(ctx)
	var events []audit.Event
	for _, entry := range entries {
		var e audit.Event
		if json.Unmarshal(entry.Data, &e) == nil {
			events = append(events, e)
		}
	}
	return events, err
}

func encode(e audit.Event) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", e.Action, err)
	}
	return data, nil
}
