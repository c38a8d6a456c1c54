// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A position is a node in the queue.
type position struct {
	Owner string        `json:"owner"`
	Token fencing.Token `json:"token"` // of the grant, if it comes to that
	path  string
}

// A queue follows the nodes of the lock in ZooKeeper's commit order: it shows what the servers have, and not what a contender
// believes. It is safe for concurrent use.
type queue struct {
	journal *journal

	mu        sync.Mutex // guards what follows. Locked before the journal's
	positions []position
	owners    map[string]string // of the nodes that exist or existed, by name
	names     map[int64]string  // of the contenders, by session
}

func newQueue(j *journal) *queue {
	j.add("zookeeper", kindInfo, "", state{"queue": []position{}})
	return &queue{journal: j, owners: map[string]string{}, names: map[int64]string{}}
}

// committed is called for each transaction, in commit order.
func (q *queue) committed(c zktest.Commit) {
	if c.Err != nil {
		return
	}
	for _, op := range c.Ops {
		op.Zxid, op.Session = c.Zxid, c.Session
		q.committed(op)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	node, ours := strings.CutPrefix(c.Path, path+"/")
	switch {
	case c.Op == "closeSession":
		q.end(c)
	case !ours:
	case c.Op == "create":
		p := position{Owner: protocol.DecodeRecord(c.Data).Owner, Token: fencing.Token(c.Zxid), path: c.Path}
		q.owners[node], q.names[c.Session] = p.Owner, p.Owner
		q.positions = append(q.positions, p)
		q.add(fmt.Sprintf("%s joins the queue with token %v", p.Owner, p.Token))
	case c.Op == "delete":
		if i := q.index(c.Path); i >= 0 {
			owner := q.positions[i].Owner
			q.positions = slices.Delete(q.positions, i, i+1)
			q.add("the node of " + owner + " is deleted")
		}
	}
}

// end removes the nodes of a session that has ended. The caller holds mu.
func (q *queue) end(c zktest.Commit) {
	name, known := q.names[c.Session]
	if !known {
		return
	}
	delete(q.names, c.Session)
	text := "the session of " + name + " is closed"
	if c.Expired {
		text = "the session of " + name + " expires"
	}
	for _, removed := range c.Removed {
		if i := q.index(removed); i >= 0 {
			q.positions = slices.Delete(q.positions, i, i+1)
			text += ", and its node is deleted"
		}
	}
	q.add(text)
}

// index returns the index of a node, -1 if it has none. The caller holds mu.
func (q *queue) index(path string) int {
	return slices.IndexFunc(q.positions, func(p position) bool { return p.path == path })
}

// add adds an event with the present queue. The caller holds mu.
func (q *queue) add(text string) {
	q.journal.add("zookeeper", kindQueue, text, state{"queue": slices.Clone(q.positions)})
}

// owner returns the contender that created a node, by the node's name.
func (q *queue) owner(node string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if owner, known := q.owners[node]; known {
		return owner
	}
	return "another contender"
}

// identify records the contender of a session.
func (q *queue) identify(session int64, name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.names[session] = name
}
