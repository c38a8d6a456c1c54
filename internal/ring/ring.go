// SPDX-License-Identifier: Apache-2.0

// Package ring keeps the newest entries that any clients append.
package ring

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Ring keeps the newest entries that any clients append, as nodes below one path. It is for
// what operators must find later, whichever client wrote it, and not for state that a lock
// protects: it checks no claim. Entries are ordered as ZooKeeper has committed them. A Ring is
// safe for concurrent use.
type Ring struct {
	client *client.Client
	path   string // namespace included
	size   int
	acl    []zk.ACL
}

// An Entry is one entry of a Ring.
type Entry struct {
	Name string
	Data []byte
}

// New returns the Ring at path, to which the client's namespace is added, of so many
// entries. The nodes of entries get that ACL, or the client's if it is empty. It sends no
// request.
func New(of *recipes.Client, path string, size int, acl []zk.ACL) (*Ring, error) {
	fail := func(err error) (*Ring, error) { return nil, &recipes.Error{Op: "new ring", Err: err} }
	if of == nil {
		return fail(errors.New("client is nil"))
	}
	c := client.Of(of)
	full, err := c.Place(path)
	if err != nil {
		return fail(err)
	}
	if size < 1 {
		return fail(fmt.Errorf("size %d is not positive", size))
	}
	if len(acl) == 0 {
		acl = c.ACL()
	}
	return &Ring{client: c, path: full, size: size, acl: acl}, nil
}

// Append adds an entry, and returns its name. It repeats a create that was not answered, until
// ctx is done: an error means that the entry may exist. Append deletes no entry: see Trim.
func (r *Ring) Append(ctx context.Context, data []byte) (name string, err error) {
	if err := zkpath.CheckData(r.path, data); err != nil {
		return "", &recipes.Error{Op: "append", Path: r.path, Err: err}
	}
	// A repeated create makes a second node. Their common beginning shows that they are one entry. Its digits cannot spell
	// "lock", after which a number makes the name a contender's.
	id := make([]byte, 10)
	_, _ = rand.Read(id) // never fails
	prefix := r.path + "/" + fmt.Sprintf("%x-", id)
	err = r.client.WithSession(ctx, r.path, func(s *client.Session) error {
		path, err := r.create(ctx, s, prefix, data)
		if errors.Is(err, zk.ErrNoNode) {
			if err := s.CreateParents(ctx, r.path, nil); err != nil {
				return err
			}
			path, err = r.create(ctx, s, prefix, data)
		}
		name = path[strings.LastIndexByte(path, '/')+1:]
		return err
	})
	return name, err
}

func (r *Ring) create(ctx context.Context, s *client.Session, prefix string, data []byte) (string, error) {
	return session.Retry(ctx, s.Session, "create", prefix, func(conn *zk.Conn) (string, error) {
		return conn.Create(prefix, data, zk.FlagSequence, r.acl)
	})
}

// Replace writes new data to an entry. The error of an entry that Trim has deleted is
// zk.ErrNoNode.
func (r *Ring) Replace(ctx context.Context, name string, data []byte) error {
	path := r.path + "/" + name
	if err := zkpath.CheckData(path, data); err != nil {
		return &recipes.Error{Op: "write", Path: path, Err: err}
	}
	return r.client.WithSession(ctx, path, func(s *client.Session) error {
		_, err := session.Retry(ctx, s.Session, "write", path, func(conn *zk.Conn) (*zk.Stat, error) {
			return conn.Set(path, data, -1)
		})
		return err
	})
}

// Delete deletes an entry: all of its nodes. One that is missing is no error. It costs one listing.
func (r *Ring) Delete(ctx context.Context, name string) error {
	entry, _, _ := strings.Cut(name, "-")
	return r.client.WithSession(ctx, r.path+"/"+name, func(s *client.Session) error {
		// A server that is behind may not list it yet.
		if err := r.delete(ctx, s, name); err != nil {
			return err
		}
		names, _, err := s.Children(ctx, r.path)
		if errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		for _, name := range names {
			if err == nil && strings.HasPrefix(name, entry+"-") {
				err = r.delete(ctx, s, name)
			}
		}
		return err
	})
}

func (r *Ring) delete(ctx context.Context, s *client.Session, name string) error {
	path := r.path + "/" + name
	_, err := session.Retry(ctx, s.Session, "delete", path, func(conn *zk.Conn) (struct{}, error) {
		return struct{}{}, conn.Delete(path, -1)
	})
	if errors.Is(err, zk.ErrNoNode) {
		err = nil // another client, or an attempt that was not answered, has deleted it
	}
	return err
}

// Trim deletes all entries but the newest, as many as the Ring keeps. Call it after Append: an
// error is of interest only if it persists, as the next Trim deletes what this one left.
func (r *Ring) Trim(ctx context.Context) error {
	return r.client.WithSession(ctx, r.path, func(s *client.Session) error {
		_, surplus, err := r.list(ctx, s)
		for _, name := range surplus {
			if err == nil {
				err = r.delete(ctx, s, name)
			}
		}
		return err
	})
}

// Entries yields the entries, the newest first, as the server that this client is connected to
// sees them. It costs one listing, and one read for each entry that is yielded. It ends after
// an error.
func (r *Ring) Entries(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var names []string
		err := r.client.WithSession(ctx, r.path, func(s *client.Session) (err error) {
			names, _, err = r.list(ctx, s)
			return err
		})
		for _, name := range names {
			entry := Entry{Name: name}
			err = r.client.WithSession(ctx, r.path+"/"+name, func(s *client.Session) (err error) {
				entry.Data, _, err = s.Get(ctx, r.path+"/"+name)
				return err
			})
			switch {
			case errors.Is(err, zk.ErrNoNode): // it was deleted meanwhile
				err = nil
			case err != nil:
				yield(Entry{}, err)
				return
			case !yield(entry, nil):
				return
			}
		}
		if err != nil {
			yield(Entry{}, err)
		}
	}
}

// list returns the names of the entries, the newest first, and of surplus nodes.
func (r *Ring) list(ctx context.Context, s *client.Session) (kept, surplus []string, err error) {
	names, _, err := s.Children(ctx, r.path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil, nil
	}
	kept, surplus = newestEntries(names, r.size)
	return kept, surplus, err
}

// newestEntries returns the names of the newest entries, up to size, and the names of other entries.
// Of the nodes of one entry only the newest is kept. Other names are in neither.
func newestEntries(names []string, size int) (kept, surplus []string) {
	type node struct {
		name, entry string
		number      int64
	}
	var nodes []node
	for _, name := range names {
		entry, digits, _ := strings.Cut(name, "-")
		if number, err := strconv.ParseInt(digits, 10, 64); err == nil {
			nodes = append(nodes, node{name, entry, number})
		}
	}
	slices.SortFunc(nodes, func(a, b node) int { return int(b.number - a.number) })
	seen := make(map[string]bool)
	for _, n := range nodes {
		if seen[n.entry] || len(kept) == size {
			surplus = append(surplus, n.name)
			continue
		}
		seen[n.entry] = true
		kept = append(kept, n.name)
	}
	return kept, surplus
}
