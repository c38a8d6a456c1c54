// SPDX-License-Identifier: Apache-2.0

// Package history keeps the last grants and forced releases of each lock in ZooKeeper, so that any replica can show the entries of
// all. It is for the eyes of operators: no grant waits for it, and it can miss some.
//
// The locks share a fixed number of nodes, the slots. A slot takes at most maxSlot bytes, whatever the number of locks and
// namespaces: a node for each lock would remain when the lock is used no more. A replica collects entries, and writes the entries of
// a slot together, at most perFlush slots in each flushEvery.
package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	// Kept is how many entries of one lock are kept.
	Kept    = 16
	slots   = 1024
	maxSlot = 8 << 10 // bytes

	flushEvery   = 2 * time.Second
	flushTimeout = 5 * time.Second
	perFlush     = 32
	attempts     = 3 // to write a slot that other replicas write at the same time
)

// A Log keeps entries. It is safe for concurrent use.
type Log struct {
	client *recipes.Client
	path   string
	acl    []zk.ACL
	logger *slog.Logger

	mu      sync.Mutex       // guards what follows
	pending map[int][]record // that wait to be written, by slot
}

// New returns the Log below path, whose nodes get that ACL.
func New(client *recipes.Client, path string, acl []zk.ACL, logger *slog.Logger) *Log {
	return &Log{client: client, path: path, acl: acl, logger: logger, pending: make(map[int][]record)}
}

// Add adds an entry, which is written later.
func (l *Log) Add(namespace, key string, e Entry) {
	r := record{place{namespace, key}, e}
	r.Time = r.Time.UTC().Truncate(time.Millisecond)
	l.add(r.slot(), r)
}

// add keeps as many records as a slot does: more would not be written.
func (l *Log) add(slot int, records ...record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending[slot] = merge(append(l.pending[slot], records...), Kept, maxSlot)
}

// Run writes entries until ctx is done, and then what is left.
func (l *Log) Run(ctx context.Context) {
	ticker := time.NewTicker(flushEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.flush(ctx, perFlush)
		case <-ctx.Done():
			l.flush(context.WithoutCancel(ctx), slots)
			return
		}
	}
}

// flush writes some of the slots for which entries wait. Those that cannot be written wait on.
func (l *Log) flush(ctx context.Context, limit int) {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	var failed error
	for slot, records := range l.take(limit) {
		err := failed // without ZooKeeper, one slot is enough to see that
		if err == nil {
			err = l.write(ctx, slot, records)
		}
		if err == nil {
			continue
		}
		l.add(slot, records...)
		if !errors.Is(err, errContended) {
			failed = err
		}
	}
	if failed != nil {
		l.logger.Warn("history of locks not written yet", "error", failed)
	}
}

// take removes and returns what waits for some slots: any, so that none waits for ever.
func (l *Log) take(limit int) map[int][]record {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := make(map[int][]record)
	for slot, records := range l.pending {
		if len(taken) == limit {
			break
		}
		taken[slot] = records
		delete(l.pending, slot)
	}
	return taken
}

// write adds records to a slot. A write that was carried out and not answered is found by the next attempt.
func (l *Log) write(ctx context.Context, slot int, records []record) error {
	node, err := l.node(slot)
	if err != nil {
		return err
	}
	for range attempts {
		old, version, found, err := read(ctx, node)
		if err != nil {
			return err
		}
		merged := merge(append(slices.Clone(old), records...), Kept, maxSlot)
		if slices.Equal(merged, old) {
			return nil
		}
		data, err := json.Marshal(merged)
		if err != nil {
			return fmt.Errorf("encode %d records: %w", len(merged), err)
		}
		if found {
			err = node.Replace(ctx, data, version)
		} else {
			err = node.CreateWithACL(ctx, data, l.acl)
		}
		switch {
		case errors.Is(err, zk.ErrBadVersion), err == nil && !found: // another replica may have created it
		default:
			return err
		}
	}
	return errContended
}

var errContended = errors.New("other replicas write the slot")

// read reads a slot. One that another program has overwritten is empty.
func read(ctx context.Context, node *node.Node) (records []record, version int32, found bool, err error) {
	data, stat, err := node.Read(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, err
	}
	if json.Unmarshal(data, &records) != nil {
		records = nil
	}
	return records, stat.Version, true, nil
}

// List returns the entries of a lock, the newest first, as the server that this replica is connected to has them, and those that
// wait in this replica.
func (l *Log) List(ctx context.Context, namespace, key string) ([]Entry, error) {
	r := record{place: place{namespace, key}}
	node, err := l.node(r.slot())
	if err != nil {
		return nil, err
	}
	records, _, _, err := read(ctx, node)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	records = append(records, l.pending[r.slot()]...)
	l.mu.Unlock()
	records = slices.DeleteFunc(records, func(other record) bool { return other.place != r.place })
	var entries []Entry
	for _, r := range merge(records, Kept, 2*maxSlot) {
		entries = append(entries, r.Entry)
	}
	return entries, nil
}

func (l *Log) node(slot int) (*node.Node, error) {
	return node.New(l.client, fmt.Sprintf("%s/%03x", l.path, slot))
}

// slot returns the number of the slot that has the lock.
func (r *record) slot() int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(r.Namespace + "/" + r.Key)) // it never returns an error; a namespace has no slash
	return int(h.Sum32() % slots)
}
