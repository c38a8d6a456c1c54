// SPDX-License-Identifier: Apache-2.0

// Package quota bounds the live keys of each namespace.
package quota

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	// refreshInterval is how old the number of keys may be. Meanwhile each replica can admit new keys, and does not know
	// those that other replicas admit.
	refreshInterval = 5 * time.Second
	// maxNamespaces bounds the namespaces that are remembered.
	maxNamespaces = 4096
	// usualName is the length up to which names count as one key each. Each list of a namespace reads the names of all keys.
	usualName = 64
)

// ErrFull is returned for a new key in a namespace that has as many as it may.
var ErrFull = errors.New("the namespace has too many keys")

// A Quota knows about how many keys each namespace has. That costs one read of the namespace's node each 5 s in which locks
// are acquired there, and not one for each acquire. It is safe for concurrent use.
type Quota struct {
	client *recipes.Client
	root   string
	limit  int

	mu         sync.Mutex // guards what follows
	namespaces map[string]*keyCount
}

// A keyCount is the number of keys of one namespace.
type keyCount struct {
	keys     int       // when it was read
	admitted int       // since: keys that may be new
	read     time.Time // when the read began
}

// New returns a Quota of limit keys for each namespace below root.
func New(client *recipes.Client, root string, limit int) *Quota {
	return &Quota{client: client, root: root, limit: limit, namespaces: make(map[string]*keyCount)}
}

// Admit returns nil if a lock of the namespace may be acquired, whose node is at path: the namespace has fewer keys than the
// limit, or the node exists. A long name is admitted only if all keys could have one as long: names that become shorter and
// shorter can have about four times the bytes. Otherwise it returns ErrFull, or the error of a read. Only in a namespace that seems
// full does each call read.
func (q *Quota) Admit(ctx context.Context, namespace, path string) error {
	name := len(path) - strings.LastIndexByte(path, '/') - 1
	room, fresh := q.admit(namespace, name)
	if room && fresh {
		return nil
	}
	if !room {
		if exists, err := q.exists(ctx, path); exists || err != nil {
			return err
		}
	}
	// Not every lock that was acquired since the last read has a new key.
	keys, err := q.count(ctx, namespace)
	if err != nil || q.hasRoom(keys, name) {
		return err
	}
	if exists, err := q.exists(ctx, path); exists || err != nil {
		return err
	}
	return ErrFull
}

// hasRoom reports whether a namespace with so many keys has room for a name of so many bytes.
func (q *Quota) hasRoom(keys, name int) bool {
	return keys < q.limit && (name <= usualName || keys*name <= q.limit*usualName)
}

// admit reports whether the namespace has room by what is known, and counts a key if so. fresh is false for one call in each
// refreshInterval, which has to read the number of keys.
func (q *Quota) admit(namespace string, name int) (room, fresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c, now := q.namespaces[namespace], time.Now()
	if c == nil {
		for other := range q.namespaces {
			if len(q.namespaces) < maxNamespaces {
				break
			}
			delete(q.namespaces, other) // any: it is read again
		}
		c = &keyCount{}
		q.namespaces[namespace] = c
	}
	if fresh = now.Sub(c.read) < refreshInterval; !fresh {
		c.read = now
	}
	if room = q.hasRoom(c.keys+c.admitted, name); room {
		c.admitted++
	}
	return room, fresh
}

// count reads and records the number of keys.
func (q *Quota) count(ctx context.Context, namespace string) (keys int, err error) {
	stat, err := q.stat(ctx, q.root+"/"+namespace)
	if stat != nil {
		keys = int(stat.NumChildren)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch c := q.namespaces[namespace]; {
	case err != nil:
		delete(q.namespaces, namespace) // the next call reads
	case c != nil:
		c.keys, c.admitted = keys, 1
	}
	return keys, err
}

// exists reports whether a node exists.
func (q *Quota) exists(ctx context.Context, path string) (bool, error) {
	stat, err := q.stat(ctx, path)
	return stat != nil, err
}

// stat reads the Stat of a node, nil if the node is missing.
func (q *Quota) stat(ctx context.Context, path string) (*zk.Stat, error) {
	node, err := node.New(q.client, path)
	if err != nil {
		return nil, err
	}
	_, stat, err := node.Read(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	return stat, err
}
