// SPDX-License-Identifier: Apache-2.0

package group

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/registration"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Limits of what a member shows.
const (
	MaxID       = 256                  // of an id, in bytes
	MaxMetadata = registration.MaxData // of the metadata, in bytes: 64 KiB
)

// Options are the options of a Group. The zero value of a field means its default.
type Options struct {
	// ReleaseTimeout bounds Leave, and how long a Join that failed waits for the deletion of its
	// node. The default is the session timeout.
	ReleaseTimeout time.Duration

	_ struct{}
}

// A Group is the set of members below one path. It has no state: a member's is in its
// Membership. It is safe for concurrent use.
type Group struct {
	client  *recipes.Client
	node    *node.Node
	path    string // below the client's namespace
	release time.Duration
}

// New returns the group at path, an absolute path to which the client's namespace is added. It
// sends no request. opts may be nil.
//
// The node at path holds the members and nothing else. The first Join creates it if it is missing,
// with missing nodes above it, as container nodes.
func New(client *recipes.Client, path string, opts *Options) (*Group, error) {
	fail := func(err error) (*Group, error) { return nil, &recipes.Error{Op: "new group", Path: path, Err: err} }
	if opts == nil {
		opts = &Options{}
	}
	if opts.ReleaseTimeout < 0 {
		return fail(fmt.Errorf("release timeout %v is negative", opts.ReleaseTimeout))
	}
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new group", Err: err}
	}
	node, err := node.New(client, path)
	if err != nil {
		return nil, fmt.Errorf("new group: %w", err)
	}
	return &Group{client: client, node: node, path: path, release: opts.ReleaseTimeout}, nil
}

// Path returns the path of the group's node, namespace included.
func (g *Group) Path() string { return g.node.Path() }

// Join registers a member with that id, the name of its node, and keeps it registered until Leave.
//
// Join waits while another session has a member of the same id, until ctx is done: a process that
// was restarted waits so for the end of its former session, at most T and a tick after its death.
// The error is then a *recipes.TakenError, which names the other session and shows its metadata,
// and ctx's. ctx bounds the call and not the membership. After an error there is no member; if
// the error matches recipes.ErrUncertain, its node may remain for a while.
//
// Join returns an error immediately, and changes nothing, if the id or the metadata is invalid, if
// this client has joined with the id already, if a server refuses the node, or, with recipes.ErrQueue, if the group's node is the
// queue of a lock or an election. An id has no slash
// and at most MaxID bytes.
func (g *Group) Join(ctx context.Context, id string, metadata []byte) (*Membership, error) {
	if err := g.check(id, metadata); err != nil {
		return nil, &recipes.Error{Op: "join", Path: g.Path(), Err: err}
	}
	if err := g.node.RefuseQueue(ctx); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	opts := &registration.Options{ReleaseTimeout: g.release}
	registration, err := registration.Register(ctx, g.client, g.path+"/"+id, metadata, opts)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	return &Membership{registration: registration, id: id}, nil
}

// check returns what is wrong with the id or the metadata of a member.
func (g *Group) check(id string, metadata []byte) error {
	switch {
	case id == "":
		return errors.New("id is empty")
	case len(id) > MaxID:
		return fmt.Errorf("id of %d bytes is over the limit of %d", len(id), MaxID)
	case strings.Contains(id, "/"):
		return fmt.Errorf("id %q has a slash", id)
	case len(metadata) > MaxMetadata:
		return fmt.Errorf("metadata of member %q has %d bytes, over the limit of %d", id, len(metadata), MaxMetadata)
	}
	if _, err := node.New(g.client, g.path+"/"+id); err != nil {
		return fmt.Errorf("id %q: %w", id, err)
	}
	return nil
}
