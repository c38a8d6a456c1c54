// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/node"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// ErrMoved is the cause with which the context of a partition's work ends when the partition is no longer assigned to this member.
var ErrMoved = errors.New("partition is assigned to another member")

// ErrNoOwner is returned by Owner when no member owns or waits for the partition.
var ErrNoOwner = errors.New("no owner")

// An Assign is one member of the assignment at a path. It is safe for concurrent use.
type Assign struct {
	client  *recipes.Client
	path    string // below the client's namespace
	opts    Options
	members *group.Group
	leader  *election.Election
	set     *record.Node[set]
	share   *record.Node[share] // of this member
	shares  *node.Node          // the node above the shares of all members

	mu    sync.Mutex            // guards owned
	owned map[string]*Ownership // whose work runs, by partition
}

// New returns the member of opts.ID of the assignment at path, below the client's namespace. It sends no request. opts may be nil.
func New(client *recipes.Client, path string, opts *Options) (*Assign, error) {
	fail := func(err error) (*Assign, error) {
		return nil, &recipes.Error{Op: "new assignment", Path: path, Err: err}
	}
	if opts == nil {
		opts = &Options{}
	}
	if client == nil {
		return fail(errors.New("client is nil"))
	}
	if err := zkpath.CheckRecipe(path); err != nil {
		return nil, &recipes.Error{Op: "new assignment", Err: err}
	}
	if err := opts.check(); err != nil {
		return fail(err)
	}
	a := &Assign{
		client: client, path: path, opts: opts.withDefaults(client.Owner()),
		owned: make(map[string]*Ownership),
	}
	if _, err := a.newSet(opts.Partitions); err != nil {
		return fail(err)
	}
	if err := checkID(a.opts.ID); err != nil {
		return fail(err)
	}
	var errs [5]error
	a.members, errs[0] = group.New(client, path+"/members", &group.Options{ReleaseTimeout: opts.ReleaseTimeout})
	a.leader, errs[1] = election.New(client, path+"/leader", &election.Options{
		Owner: a.opts.ID, ReleaseTimeout: opts.ReleaseTimeout, StopTimeout: opts.StopTimeout,
		Retry: func(err error) bool {
			a.opts.Logger.Error("leader of an assignment failed", "member", a.opts.ID, "path", a.Path(), "error", err)
			return true
		},
	})
	a.set, errs[2] = record.New(client, path+"/set", sets)
	a.share, errs[3] = record.New(client, path+"/assigned/"+a.opts.ID, shares)
	a.shares, errs[4] = node.New(client, path+"/assigned")
	if err := cmp.Or(errs[:]...); err != nil {
		return nil, fmt.Errorf("new assignment: %w", err)
	}
	return a, nil
}

// checkID returns what is wrong with the ID of a member.
func checkID(id string) error {
	switch {
	case len(id) > group.MaxID:
		return fmt.Errorf("ID of %d bytes is over the limit of %d", len(id), group.MaxID)
	case strings.Contains(id, "/"):
		return fmt.Errorf("ID %q has a slash: set Options.ID", id)
	}
	if err := zkpath.CheckRecipe("/" + id); err != nil {
		return fmt.Errorf("ID %q: %w", id, err)
	}
	return nil
}

// Path returns the path of the assignment, the client's namespace included.
func (a *Assign) Path() string { return a.client.Path(a.path) }

// SetPartitions stores the set of partitions: at most MaxPartitions names, without slashes. Any client may call it, whether it runs a member or not.
// The leader assigns new partitions after RebalanceWait. A partition that is not in the set any more is taken from its owner
// with ErrMoved. Of concurrent calls, the last one prevails.
//
// After recipes.ErrUncertain, the set may have been stored: repeat the call. After any other error it was not.
func (a *Assign) SetPartitions(ctx context.Context, names []string) error {
	s, err := a.newSet(names)
	if err != nil {
		return &recipes.Error{Op: "set partitions", Path: a.set.Path(), Err: err}
	}
	if err := a.store(ctx, s); err != nil {
		return fmt.Errorf("set partitions: %w", err)
	}
	return nil
}

// newSet returns the set of those partitions, in any order. Each has a queue whose path is not too long.
func (a *Assign) newSet(names []string) (set, error) {
	s, err := newSet(names)
	for _, name := range s.Partitions {
		if err == nil {
			err = zkpath.CheckSize(a.client.Path(a.path + "/owned/" + name))
		}
	}
	return s, err
}

// store writes the set, whatever was stored before.
func (a *Assign) store(ctx context.Context, s set) error {
	sent := false // an attempt may have been carried out, although it was not answered or its answer does not tell
	for {
		_, stat, err := a.set.Node.Read(ctx)
		if errors.Is(err, zk.ErrNoNode) {
			if err = a.set.Create(ctx, s); err == nil { // it also succeeds if another call has created the node
				sent = true
				_, stat, err = a.set.Node.Read(ctx)
			}
		}
		if err == nil {
			err = a.set.Replace(ctx, s, stat.Version)
		}
		// Another call has written, or this one has and got no answer: the last write prevails.
		switch {
		case errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrNoNode):
			sent = true
		case err != nil && sent && !errors.Is(err, recipes.ErrUncertain):
			return &recipes.Error{Op: "write", Path: a.set.Path(), Err: fmt.Errorf("%w: %w", recipes.ErrUncertain, err)}
		default:
			return err
		}
	}
}

// storeOptions stores Options.Partitions, unless the node of the set exists.
func (a *Assign) storeOptions(ctx context.Context) error {
	s, err := a.newSet(a.opts.Partitions)
	if err != nil {
		return err
	}
	return a.set.Create(ctx, s)
}

// Owned returns the partitions whose work runs in this process, sorted. It does no I/O. A claim that was lost is included until
// its work has returned.
func (a *Assign) Owned() []*Ownership {
	a.mu.Lock()
	owned := make([]*Ownership, 0, len(a.owned))
	for _, o := range a.owned {
		owned = append(owned, o)
	}
	a.mu.Unlock()
	slices.SortFunc(owned, func(a, b *Ownership) int { return cmp.Compare(a.partition, b.partition) })
	return owned
}

// Owner returns the first contender of a partition, whose Owner is the ID of a member: it owns the partition, or is about to. If there is
// none, the error is ErrNoOwner. It is as seen by the server that this client is connected to, with two reads, and may have
// changed since: to decide whether to obey an owner, compare tokens.
func (a *Assign) Owner(ctx context.Context, partition string) (recipes.Contender, error) {
	q, err := a.queue(partition)
	if err != nil {
		return recipes.Contender{}, fmt.Errorf("owner: %w", err)
	}
	owner, err := q.First(ctx)
	if errors.Is(err, queue.ErrEmpty) {
		err = &recipes.Error{Op: "read", Path: q.Path(), Err: fmt.Errorf("%w of partition %q", ErrNoOwner, partition)}
	}
	if err != nil {
		return recipes.Contender{}, fmt.Errorf("owner: %w", err)
	}
	return owner, nil
}

// queue returns the queue of the owners of a partition.
func (a *Assign) queue(partition string) (*queue.Queue, error) {
	path := a.path + "/owned/" + partition
	if err := checkPartition(partition); err != nil {
		return nil, &recipes.Error{Op: "new queue", Path: path, Err: err}
	}
	return queue.New(a.client, path, &queue.Options{Owner: a.opts.ID, ReleaseTimeout: a.opts.ReleaseTimeout})
}

// An Ownership is a claim of one partition, from the grant until its work has returned. The token orders the grants of this partition. All methods
// are safe for concurrent use.
//
// Besides Partition it has the methods of the embedded Claim, among them Commit and Check for writes to ZooKeeper, and Token for writes to
// other resources. Package epoch claims a dense number for the Claim.
type Ownership struct {
	*recipes.Claim
	partition string
	ended     chan struct{} // closed when the work has returned
}

// Partition returns the name of the partition.
func (o *Ownership) Partition() string { return o.partition }

// add records that the work of an ownership runs.
func (a *Assign) add(o *Ownership) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owned[o.partition] = o
}

// remove records that the work of an ownership has returned.
func (a *Assign) remove(o *Ownership) {
	a.mu.Lock()
	delete(a.owned, o.partition)
	a.mu.Unlock()
	close(o.ended)
}

// running returns a channel that is closed when the work of the partition has returned that a former Run left behind, nil if there is
// none.
func (a *Assign) running(partition string) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.owned[partition]; o != nil {
		return o.ended
	}
	return nil
}
