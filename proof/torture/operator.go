// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// An operator changes nodes and sessions directly on the servers. Each operation runs in its own session.
type operator struct {
	servers       []string
	expireSession func(ctx context.Context, session int64) error // of the ensemble

	mu       sync.Mutex     // guards what follows
	sessions map[int64]bool // of the operator
	ended    map[int64]bool // of contenders, ended by the operator
}

func newOperator(servers []string) *operator {
	return &operator{servers: servers, sessions: map[int64]bool{}, ended: map[int64]bool{}}
}

// ownSessions returns the sessions of the operator.
func (o *operator) ownSessions() (all []history.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	all = []history.ID{} // not nil, which stands for a run that did not record them
	for session := range o.sessions {
		all = append(all, history.ID(session))
	}
	slices.Sort(all)
	return all
}

// operationTimeout bounds an operation of the operator.
const operationTimeout = 5 * time.Second

// do runs f with a connection. It gives up when ctx ends, or after operationTimeout.
func (o *operator) do(ctx context.Context, f func(*zk.Conn) error) error {
	if o == nil { // the run has no ensemble
		return fmt.Errorf("operator: %w", docker.ErrUnsupported)
	}
	return o.doAt(ctx, o.servers, f)
}

func (o *operator) doAt(ctx context.Context, servers []string, f func(*zk.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, operationTimeout)
	defer cancel()
	ready := make(chan struct{})
	var once sync.Once
	conn, events, err := zk.Connect(servers, 4*time.Second, zk.WithLogger(silent{}), zk.WithEventCallback(func(e zk.Event) {
		if e.State == zk.StateHasSession {
			once.Do(func() { close(ready) })
		}
	}))
	if err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	var draining sync.WaitGroup
	draining.Go(func() {
		for range events {
		}
	})
	done := make(chan error, 1)
	draining.Go(func() {
		select {
		case <-ready:
		case <-ctx.Done():
			done <- context.Cause(ctx)
			return
		}
		o.mu.Lock()
		o.sessions[conn.SessionID()] = true
		o.mu.Unlock()
		done <- f(conn)
	})
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	conn.Close() // fails the requests of f that are in flight
	draining.Wait()
	if err != nil {
		return fmt.Errorf("operator: %w", err)
	}
	return nil
}

// silent discards the log of a ZooKeeper client.
type silent struct{}

func (silent) Printf(string, ...any) {}

// queue returns the contenders' nodes below a path, in queue order.
func queue(conn *zk.Conn, path string) ([]string, error) {
	names, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	number := func(name string) string { return name[max(0, len(name)-10):] }
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	return names, err
}

// deleteNode deletes the contender's node at a position of a queue, from 0, or the last one if the queue is shorter.
func (o *operator) deleteNode(ctx context.Context, path string, position int) error {
	return o.do(ctx, func(conn *zk.Conn) error {
		names, err := queue(conn, path)
		if err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("delete a node of %s: its queue is empty", path)
		}
		return conn.Delete(path+"/"+names[min(position, len(names)-1)], -1)
	})
}

// deleteParent deletes a path together with all its children.
func (o *operator) deleteParent(ctx context.Context, path string) error {
	return o.do(ctx, func(conn *zk.Conn) error {
		for {
			names, err := queue(conn, path)
			if err != nil {
				return err
			}
			if exists, _, err := stat(conn, path); err != nil || !exists {
				return errors.Join(err, zk.ErrNoNode)
			}
			// In one transaction, because under load a contender always joins between two requests.
			ops := []any{}
			for _, name := range names {
				ops = append(ops, &zk.DeleteRequest{Path: path + "/" + name, Version: -1})
			}
			_, err = conn.Multi(append(ops, &zk.DeleteRequest{Path: path, Version: -1})...)
			if !errors.Is(err, zk.ErrNotEmpty) && !errors.Is(err, zk.ErrNoNode) { // one has joined or left meanwhile
				return err
			}
		}
	})
}

// exists reports whether a node exists, after a sync with the leader.
func (o *operator) exists(ctx context.Context, path string) (exists bool, err error) {
	err = o.do(ctx, func(conn *zk.Conn) (err error) {
		exists, _, err = stat(conn, path)
		return err
	})
	return exists, err
}

// The sequence counter stops at counterEnd; on the counted path it starts at counterPlanted.
const (
	counterEnd     = math.MaxInt32
	counterPlanted = counterEnd - 300
)

// counter returns the sequence number that the next child of a path gets: counterEnd if the counter is at its end, otherwise
// one more than the highest number assigned.
func (o *operator) counter(ctx context.Context, path string) (next int32, err error) {
	err = o.do(ctx, func(conn *zk.Conn) error {
		exists, s, err := stat(conn, path)
		if err == nil && !exists {
			err = fmt.Errorf("%s: %w", path, zk.ErrNoNode)
		}
		if err == nil {
			next = nextSequence(s)
		}
		return err
	})
	return next, err
}

// stat reports whether a node exists and returns its Stat, after a sync with the leader.
func stat(conn *zk.Conn, path string) (bool, *zk.Stat, error) {
	if _, err := conn.Sync("/"); err != nil {
		return false, nil, err
	}
	return conn.Exists(path)
}

// nextSequence returns the number of children that a node ever had, which is the sequence number of the next one. The servers
// report twice that number minus the current children, so that the reported value changes with deletions, too.
func nextSequence(s *zk.Stat) int32 {
	return int32((uint32(s.Cversion) + uint32(s.NumChildren)) >> 1)
}

// contenderName matches the names of contenders' nodes.
var contenderName = regexp.MustCompile(`lock-|__WRIT__|__READ__`)

// leftNodes returns the nodes of contenders below all paths.
func (o *operator) leftNodes(ctx context.Context, paths []string) (leftNodes []string, err error) {
	err = o.do(ctx, func(conn *zk.Conn) error {
		leftNodes = nil
		if _, err := conn.Sync("/"); err != nil {
			return err
		}
		for _, path := range paths {
			names, err := queue(conn, path)
			if err != nil {
				return err
			}
			for _, name := range names {
				if contenderName.MatchString(name) {
					leftNodes = append(leftNodes, path+"/"+name)
				}
			}
		}
		return nil
	})
	return leftNodes, err
}

// differ describes how the servers' trees differ, "" if they do not. Once a server has answered a sync, they must not.
func (o *operator) differ(ctx context.Context, paths []string) (string, error) {
	var first string
	for i, server := range o.servers {
		var tree string
		err := o.doAt(ctx, []string{server}, func(conn *zk.Conn) error {
			tree = ""
			if _, err := conn.Sync("/"); err != nil {
				return err
			}
			for _, path := range paths {
				names, stat, err := conn.Children(path)
				if err != nil && !errors.Is(err, zk.ErrNoNode) {
					return err
				}
				if stat == nil {
					stat = &zk.Stat{}
				}
				slices.Sort(names)
				tree += fmt.Sprintf("%s %+v %v; ", path, *stat, names)
			}
			return nil
		})
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = tree
		}
		if tree != first {
			return fmt.Sprintf("%s has %s, %s has %s", o.servers[0], first, server, tree), nil
		}
	}
	return "", nil
}
