// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// checkNodes checks all nodes at or below path. sessions returns the live sessions, nil if
// they cannot be known.
func (d *diagnosis) checkNodes(ctx context.Context, client *recipes.Client, path string, sessions func() map[string]bool) error {
	w, err := newWalk(ctx, client, path)
	if err != nil {
		return err
	}
	d.Nodes = len(w.nodes)
	for _, err := range w.unlisted {
		d.Notes = append(d.Notes, err.Error()+": nothing below it was checked")
	}
	for _, n := range w.nodes {
		d.checkCounter(n)
	}
	owners := map[string]string{}
	for _, q := range w.queues() {
		d.Queues++
		d.checkOthers(q, w)
		if err := d.checkContenders(ctx, client, q, owners); err != nil {
			return err
		}
	}
	if len(owners) == 0 {
		return nil
	}
	// A session whose node was read before had begun by now.
	live := sessions()
	if live == nil {
		d.Notes = append(d.Notes, "contenders were not compared with the live sessions: no leader answers the words srvr and dump")
		return nil
	}
	return d.checkOwners(client, owners, live)
}

// nextNumber returns the number of the node's next sequential child. The server keeps it
// as cversion, which counts creations, and reports twice that less the children.
func nextNumber(stat *zk.Stat) uint32 {
	return (uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2
}

func (d *diagnosis) checkCounter(n listed) {
	const end = 1<<31 - 1
	if next := nextNumber(n.stat); float64(next) >= nearEnd*end {
		d.found("check counter", n.path, "stop its contenders, and delete the node when it is empty: the numbers of a new node begin at 0",
			"the next number is %d of %d: at the end other libraries grant a lock to several clients at the same time", next, end)
	}
}

// checkOthers reports children of a queue that are no contenders. A child that has children
// is a folder of other nodes.
func (d *diagnosis) checkOthers(q listed, w *walk) {
	var foreign []string
	for _, name := range q.others {
		child := strings.TrimSuffix(q.path, "/") + "/" + name
		i, known := slices.BinarySearchFunc(w.nodes, child, func(n listed, path string) int { return strings.Compare(n.path, path) })
		if !known || w.nodes[i].stat.NumChildren == 0 {
			foreign = append(foreign, fmt.Sprintf("%q", printablePath(name)))
		}
	}
	if len(foreign) == 0 {
		return
	}
	const most = 3
	text := strings.Join(foreign[:min(most, len(foreign))], ", ")
	if len(foreign) > most {
		text += ", …"
	}
	d.found("list", q.path, "delete them, or move the lock to a separate path", "%d children belong to no known library (%s)", len(foreign), text)
}

// A read is the result of reading a contender's node.
type read struct {
	data []byte
	stat *zk.Stat
	err  error
}

// checkContenders reads the contenders of a queue. It adds the session of each to owners,
// by path.
func (d *diagnosis) checkContenders(ctx context.Context, client *recipes.Client, q listed, owners map[string]string) error {
	pathOf := func(name string) string { return strings.TrimSuffix(q.path, "/") + "/" + name }
	results, err := each(ctx, q.contenders, func(name string) read {
		data, stat, err := client.Conn().Get(client.Path(pathOf(name)))
		return read{data, stat, err}
	})
	if err != nil {
		return err
	}
	for i, r := range results {
		path := pathOf(q.contenders[i])
		switch {
		case errors.Is(r.err, zk.ErrNoNode): // released meanwhile
		case errors.Is(r.err, zk.ErrNoAuth):
			d.found("read", path, "give contenders READ on each other's nodes", "this client may not: contenders behind it cannot wait for it")
		case r.err != nil:
			return &recipes.Error{Op: "read", Path: client.Path(path), Err: r.err}
		case r.stat.EphemeralOwner != 0:
			owners[path] = hexID(r.stat.EphemeralOwner)
		case isLease(r.data):
			d.checkLease(path, r.data, time.UnixMilli(r.stat.Mtime), time.Now())
		default:
			d.found("check session", path, "delete the node once the work that it stands for has stopped",
				"the contender belongs to no session, and its record is not a lease's: it blocks the queue until it is deleted")
		}
	}
	return nil
}

// checkOwners reports contenders that exist although their sessions do not.
func (d *diagnosis) checkOwners(client *recipes.Client, owners map[string]string, live map[string]bool) error {
	for _, path := range slices.Sorted(maps.Keys(owners)) {
		if live[owners[path]] {
			continue
		}
		// The nodes of a session end with it, which this client's server must have carried out.
		full := client.Path(path)
		if _, err := client.Conn().Sync(full); err != nil {
			return &recipes.Error{Op: "sync", Path: full, Err: err}
		}
		exists, _, err := client.Conn().Exists(full)
		if err != nil {
			return &recipes.Error{Op: "read", Path: full, Err: err}
		}
		if exists {
			d.found("check session", path, "delete the node: it is an orphan", "its session %s does not exist", owners[path])
		}
	}
	return nil
}

// A leaseRecord is what the node of a lease, which belongs to no session, contains.
type leaseRecord struct {
	Format int
	Kind   string
	TTL    int64 // in ms
}

// isLease reports whether the record of a contender is a lease's, which belongs to no
// session and ends with its TTL.
func isLease(data []byte) bool {
	var record leaseRecord
	return json.Unmarshal(data, &record) == nil && record.Format == 1 && record.Kind == "lease" && record.TTL > 0
}

// clockTolerance is by how much the clocks of this machine and of ZooKeeper's leader may differ.
const clockTolerance = time.Minute

// checkLease reports a lease that ended long ago. A replica of the lock service, or a waiter, deletes one within a TTL.
func (d *diagnosis) checkLease(path string, data []byte, written, now time.Time) {
	var record leaseRecord
	if json.Unmarshal(data, &record) != nil || record.TTL <= 0 {
		return
	}
	ttl, age := time.Duration(record.TTL)*time.Millisecond, now.Sub(written)
	if age > 2*ttl+clockTolerance {
		d.found("check lease", path, "start a replica of the lock service, which deletes it",
			"its TTL is %v, and it was renewed last %v ago, by the clock of this machine: it blocks the queue", ttl, age.Round(time.Second))
	}
}
