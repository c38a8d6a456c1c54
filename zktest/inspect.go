// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The methods in this file read and change nodes directly, without a client: with all
// permissions, and in the leader's state.

// A Stat is a node's metadata. Times are milliseconds since 1970. Its fields are those
// of the Go client's zk.Stat.
type Stat struct {
	Czxid, Mzxid                int64
	Ctime, Mtime                int64
	Version, Cversion, Aversion int32
	EphemeralOwner              int64
	DataLength, NumChildren     int32
	Pzxid                       int64
}

// super has all permissions.
var super = []tree.Identity{{Scheme: "super", ID: ""}}

// view calls f with the tree of the server that latest returns.
func (e *Ensemble) view(f func(t *tree.Tree)) {
	e.mu.Lock()
	defer e.unlock()
	f(e.latest().tree)
}

// latest returns the leader. While no server leads, it returns the running server with
// the greatest zxid, or if none runs the server with the greatest zxid. The caller holds
// mu.
func (e *Ensemble) latest() *Server {
	if e.leader != nil {
		return e.leader
	}
	best := e.servers[0]
	for _, s := range e.servers[1:] {
		if s.running && !best.running || s.running == best.running && s.tree.Zxid() > best.tree.Zxid() {
			best = s
		}
	}
	return best
}

// Get returns a node's data and Stat.
func (e *Ensemble) Get(path string) (data []byte, stat Stat, err error) {
	var found wire.Stat
	var code wire.Code
	e.view(func(t *tree.Tree) { data, found, code = t.Get(path, super) })
	return slices.Clone(data), Stat(found), failed("get", path, code)
}

// Children returns the names of a node's children, sorted.
func (e *Ensemble) Children(path string) (names []string, err error) {
	var code wire.Code
	e.view(func(t *tree.Tree) { names, _, code = t.Children(path, super) })
	slices.Sort(names)
	return names, failed("list", path, code)
}

// Create creates a persistent node with an open ACL, and its missing ancestors.
func (e *Ensemble) Create(path string, data []byte) error {
	e.mu.Lock()
	defer e.unlock()
	if !e.quorum() {
		return &OpError{Op: "create", Path: path, Err: ErrNoQuorum}
	}
	var missing []string
	for above := parentOf(path); above != "" && above != "/"; above = parentOf(above) {
		if _, code := e.leader.tree.Exists(above); code == wire.OK {
			break
		}
		missing = append(missing, above)
	}
	for _, above := range slices.Backward(missing) {
		if err := failed("create", above, e.do(wire.Create{Op: wire.OpCreate, Path: above, ACL: wire.World})); err != nil {
			return err
		}
	}
	return failed("create", path, e.do(wire.Create{Op: wire.OpCreate, Path: path, Data: slices.Clone(data), ACL: wire.World}))
}

// Set replaces a node's data.
func (e *Ensemble) Set(path string, data []byte) error {
	return e.doAs("set", path, wire.SetData{Path: path, Data: slices.Clone(data), Version: -1})
}

// Delete deletes a node that has no children, regardless of its owner.
func (e *Ensemble) Delete(path string) error {
	return e.doAs("delete", path, wire.Delete{Path: path, Version: -1})
}

// doAs commits a request that belongs to no session, and names its failure by op and
// path.
func (e *Ensemble) doAs(op, path string, req any) error {
	e.mu.Lock()
	defer e.unlock()
	if !e.quorum() {
		return &OpError{Op: op, Path: path, Err: ErrNoQuorum}
	}
	return failed(op, path, e.do(req))
}

// do commits a request that belongs to no session. The caller holds mu, and has checked
// the quorum.
func (e *Ensemble) do(req any) wire.Code {
	e.zxid++
	en := entry{}
	en.txn, en.outcome = e.leader.tree.Commit(e.zxid, time.Now().UnixMilli(), 0, super, req)
	e.record(0, req, en, false)
	e.commit(en)
	return en.outcome.Err()
}

// SetCounter sets the number of a node's next sequential child. Each server sets it
// after it has applied the preceding transactions, so a server that lags or is isolated
// sets it later. Numbers from 2147483646 on show the counter at its maximum. The counter
// cannot be set to a lower number.
func (e *Ensemble) SetCounter(path string, next int32) error {
	fail := func(err error) error { return &OpError{Op: "set counter", Path: path, Err: err} }
	e.mu.Lock()
	defer e.unlock()
	if !e.quorum() {
		return fail(ErrNoQuorum)
	}
	stat, code := e.leader.tree.Exists(path)
	if code != wire.OK {
		return fail(asError(code))
	}
	// cversion counts deletions as well: it is twice the counter, minus the children.
	if now := int64((uint32(stat.Cversion) + uint32(stat.NumChildren)) / 2); int64(next) < now { //nolint:gosec // it overflows
		return fail(fmt.Errorf("number %d is below the counter, which is at %d", next, now))
	}
	e.commit(entry{counter: counter{path, next}})
	return nil
}

// Zxid returns the zxid of the last transaction.
func (e *Ensemble) Zxid() int64 {
	e.mu.Lock()
	defer e.unlock()
	return e.zxid
}

// Dump describes the nodes, one a line, for a test's log.
func (e *Ensemble) Dump() string {
	var b strings.Builder
	e.view(func(t *tree.Tree) {
		t.Walk(func(path string, data []byte, stat wire.Stat) {
			fmt.Fprintf(&b, "%s czxid=0x%x mzxid=0x%x version=%d children=%d", path, stat.Czxid, stat.Mzxid, stat.Version, stat.NumChildren)
			if stat.EphemeralOwner != 0 {
				fmt.Fprintf(&b, " owner=0x%x", uint64(stat.EphemeralOwner)) //nolint:gosec // as ZooKeeper prints it
			}
			if len(data) > 0 {
				fmt.Fprintf(&b, " data=%.80q", data)
			}
			b.WriteByte('\n')
		})
	})
	return b.String()
}

// checkContainers deletes the containers whose last child is gone, and the TTL nodes whose time to
// live has passed. The caller holds mu.
func (e *Ensemble) checkContainers(now time.Time) {
	for _, path := range e.leader.tree.Deletable(now.UnixMilli()) {
		// It is refused if a child was created in the meantime, which is allowed.
		_ = e.do(tree.DeleteContainer{Path: path})
	}
}

// CheckContainers immediately deletes the nodes that the servers would delete at the end of
// the ContainerInterval: container nodes whose last child is gone, and TTL nodes whose time
// to live has passed. Without a quorum it does nothing.
func (e *Ensemble) CheckContainers() {
	e.mu.Lock()
	defer e.unlock()
	if e.quorum() {
		e.checkContainers(time.Now())
	}
}
