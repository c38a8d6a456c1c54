// SPDX-License-Identifier: Apache-2.0

package barrier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/ctxerr"
	"github.com/lockkeeper/lockkeeper/internal/node"
	records "github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// MaxSize is the greatest size of a Double. Each member reads the names of all members, 15 bytes each,
// once in a round.
const MaxSize = 4096

// recordName is the name of the node that holds the record, below the barrier's node.
const recordName = "state"

// DoubleOptions are the options of a Double. The zero value of a field means its default.
type DoubleOptions struct {
	// ReleaseTimeout bounds how long an Enter that failed, and a Leave, wait for the deletion of the
	// member's node. The default is the session timeout.
	ReleaseTimeout time.Duration

	_ struct{}
}

// A Double is a barrier that n members enter together and leave together, round after round. It has no
// state in this process: a member's is in its Round. It is safe for concurrent use, and
// concurrent calls of Enter are several members.
type Double struct {
	client  *recipes.Client
	path    string // below the client's namespace
	base    *node.Node
	record  *records.Node[content]
	size    int
	release time.Duration
}

// NewDouble returns the double barrier of n members at path, an absolute path to which the client's
// namespace is added. n is 1 to MaxSize, and the same in all processes. It sends no request. opts may
// be nil.
//
// The node at path holds the barrier and nothing else. The first Enter creates it if it is missing,
// with missing nodes above it, as container nodes.
func NewDouble(client *recipes.Client, path string, n int, opts *DoubleOptions) (*Double, error) {
	fail := func(err error) (*Double, error) {
		return nil, &recipes.Error{Op: "new double barrier", Path: path, Err: err}
	}
	if opts == nil {
		opts = &DoubleOptions{}
	}
	if err := checkSize(n); err != nil {
		return fail(err)
	}
	if opts.ReleaseTimeout < 0 {
		return fail(fmt.Errorf("release timeout %v is negative", opts.ReleaseTimeout))
	}
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new double barrier", Err: err}
	}
	base, err := node.New(client, path)
	if err != nil {
		return nil, fmt.Errorf("new double barrier: %w", err)
	}
	d := &Double{client: client, path: path, base: base, size: n, release: opts.ReleaseTimeout}
	if d.record, err = records.New(client, path+"/"+recordName, stored); err != nil {
		return nil, fmt.Errorf("new double barrier: %w", err)
	}
	return d, nil
}

// Path returns the path of the barrier's node, namespace included.
func (d *Double) Path() string { return d.base.Path() }

// Size returns the number of members of a round.
func (d *Double) Size() int { return d.size }

// create creates the record of a new barrier, unless another client has.
func (d *Double) create(ctx context.Context) error {
	if err := d.base.RefuseQueue(ctx); err != nil {
		return err
	}
	err := d.record.Create(ctx, content{Size: d.size})
	if err != nil && ctx.Err() != nil {
		return ended(ctx, d.Path())
	}
	return err
}

// resize stores the size of this process if no member of another size is in the barrier or waits. As that skips a round, a
// member that has begun to wait meanwhile finds its round missed, opens the record again and gets a *SizeError.
func (d *Double) resize(ctx context.Context, r record, changed <-chan struct{}) error {
	for _, of := range []round{r.newest(), r.next()} {
		members, _, err := d.count(ctx, of)
		if err != nil {
			return err
		}
		if members > 0 {
			return d.sizeError(r)
		}
	}
	return d.write(ctx, r.resized(d.size), r.version, changed)
}

func (d *Double) sizeError(r record) error {
	return &recipes.Error{Op: "read", Path: d.Path(), Err: &SizeError{Path: d.Path(), Size: d.size, Stored: r.Size}}
}

// write replaces the record of a version. It returns nil when the record has changed, by this call or by another client:
// the caller reads it again.
func (d *Double) write(ctx context.Context, r record, version int32, changed <-chan struct{}) error {
	return d.settle(ctx, d.record.Replace(ctx, r.content(), version), changed)
}

// settle is the rest of write, after the result of the request.
func (d *Double) settle(ctx context.Context, err error, changed <-chan struct{}) error {
	if err != nil && ctx.Err() != nil {
		return ended(ctx, d.Path())
	}
	if err != nil && !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	// The server of this client may not show the change yet.
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ended(ctx, d.Path())
	}
}

// ended returns the error of a call whose ctx has ended. It is never recipes.ErrUncertain: whether a write of the record was
// carried out changes nothing for the member that gives up.
func ended(ctx context.Context, path string) error {
	return &recipes.Error{Op: "wait", Path: path, Err: ctxerr.Ended(ctx)}
}

// count returns how many nodes of members a round has, and the zxid with which the last one came or went.
func (d *Double) count(ctx context.Context, of round) (nodes int, last int64, err error) {
	node, err := node.New(d.client, d.path+"/"+of.name())
	if err != nil {
		return 0, 0, err
	}
	_, stat, err := node.Read(ctx)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	return int(stat.NumChildren), stat.Pzxid, nil
}

// start begins the round for which members wait, if they are enough.
func (d *Double) start(ctx context.Context, r record, changed <-chan struct{}) error {
	node, err := node.New(d.client, d.path+"/"+r.next().name())
	if err != nil {
		return err
	}
	// The listing is not older than the record. So its members waited at the same time, after the last round was over.
	names, err := node.Children(ctx)
	if err != nil || len(names) < d.size {
		return err
	}
	slices.Sort(names)
	return d.write(ctx, r.started(names[:d.size]), r.version, changed)
}

// closeEmpty closes the newest round if its members have no nodes: they have left, died or lost their sessions.
func (d *Double) closeEmpty(ctx context.Context, r record, changed <-chan struct{}) error {
	// The answer is not older than the record, at whose time all members had nodes.
	members, _, err := d.count(ctx, r.newest())
	if err != nil || members > 0 {
		return err
	}
	if err = d.record.Replace(ctx, r.closed().content(), r.version); err == nil {
		d.remove(ctx, r.newest()) // by one member: at the same instant, all can find the round empty
	}
	return d.settle(ctx, err, changed)
}

// remove tries to delete the node of a round that is over, where no server does. A member whose session was lost
// may register in that round once more. Then the node stays, or is created again.
func (d *Double) remove(ctx context.Context, of round) {
	if node, err := node.New(d.client, d.path+"/"+of.name()); err == nil {
		_ = node.DeleteParent(ctx)
	}
}

// interval returns how often those that wait for the end of a round read whether its members still have nodes. The last
// one that leaves notifies the others through the record; a death notifies no member.
func (d *Double) interval() time.Duration { return d.client.SessionTimeout() / 2 }
