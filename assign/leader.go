// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/backoff"
	"github.com/lockkeeper/lockkeeper/internal/client"
	"github.com/lockkeeper/lockkeeper/internal/record"
	"github.com/lockkeeper/lockkeeper/internal/view"
)

// A leader writes the records of all members during one term. What it knows, it has read in this term.
type leader struct {
	*Assign
	term    *election.Term
	view    *view.View // of the records
	backoff backoff.Backoff
	census  *census

	partitions []string
	due        time.Time // when the assignment is computed; zero if nothing has changed
}

// lead is the work of a term, until ctx is done.
func (a *Assign) lead(ctx context.Context, term *election.Term) error {
	if err := a.shares.Create(ctx, nil); err != nil {
		return ended(ctx, err)
	}
	v, err := view.New(ctx, a.shares)
	if err != nil {
		return ended(ctx, err)
	}
	defer v.Close()
	l := &leader{Assign: a, term: term, view: v, backoff: a.opts.backoff(), census: newCensus()}
	ctx, cancel := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer cancel()
	members := newest(ctx, &sources, l.counted(a.members.Observe(ctx)))
	partitions := newest(ctx, &sources, a.sets(ctx))
	err = l.run(ctx, members, partitions)
	if ctx.Err() != nil && term.Err() == nil {
		l.retire(ctx)
	}
	return ended(ctx, err)
}

// ended returns nil in place of an error that the end of ctx caused.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (l *leader) run(ctx context.Context, members <-chan read[group.Change], partitions <-chan read[[]string]) error {
	var set read[[]string]
	haveMembers, haveSet := false, false
	for {
		var timer <-chan time.Time
		if haveMembers && haveSet && !l.due.IsZero() {
			timer = time.After(time.Until(l.due))
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case change := <-members:
			err, haveMembers = change.err, true
			l.changed()
		case set = <-partitions:
			err, l.partitions, haveSet = set.err, set.value, true
			l.changed()
		case <-l.view.Bell():
			l.changed()
		case <-timer:
			err = l.assign(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// counted updates the census before it yields a change. newest drops a change that another one follows while the leader computes or writes, and only
// that one may have shown the mark of a member that has left since.
func (l *leader) counted(all iter.Seq2[group.Change, error]) iter.Seq2[group.Change, error] {
	return func(yield func(group.Change, error) bool) {
		for change, err := range all {
			if err == nil {
				for id, reason := range l.census.update(change.Members) {
					l.opts.Logger.Error("member of an assignment has invalid metadata", "path", l.Path(), "member", id, "error", reason)
				}
			}
			if !yield(change, err) {
				return
			}
		}
	}
}

// retire records that no leader is to wait for this member: Run ends. The next leader can begin so late that it never sees the member's announcement.
func (l *leader) retire(ctx context.Context) {
	bound := l.client.SessionTimeout() / 24
	if l.opts.StopTimeout > 0 {
		bound = min(bound, l.opts.StopTimeout/2) // the election counts the time as work
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	records, err := readShares(ctx, l.view)
	own := records[l.opts.ID]
	if err == nil && len(own.Partitions) > 0 {
		own.Token, own.RejoinWait = l.term.Token(), 0
		var data []byte
		if data, err = shares.Encode(own.share); err == nil {
			_, err = l.term.Commit(ctx, &zk.SetDataRequest{Path: l.path + "/assigned/" + l.opts.ID, Data: data, Version: own.content.Stat.Version})
		}
	}
	if err != nil { // it costs the successors the wait for this member, and nothing else
		l.opts.Logger.Warn("leader of an assignment leaves without notice", "path", l.Path(), "member", l.opts.ID, "error", err)
	}
}

// changed schedules the next assignment, RebalanceWait after the first change.
func (l *leader) changed() { l.dueBy(time.Now().Add(l.opts.RebalanceWait)) }

func (l *leader) dueBy(at time.Time) {
	if l.due.IsZero() || at.Before(l.due) {
		l.due = at
	}
}

// assign computes the assignment from what is stored, and writes the records that differ. Its error is that the records cannot be read. A result that
// cannot be used, and a write that failed, are logged and repeated after a back-off.
func (l *leader) assign(ctx context.Context) error {
	began := time.Now()
	l.due = time.Time{}
	// A transaction of this client notifies its watches before its answer arrives: what is read is not older than the last write.
	records, err := readShares(ctx, l.view)
	if err != nil {
		return err
	}
	in, next := l.census.input(l.partitions, records, began)
	if !next.IsZero() {
		l.dueBy(next)
	}
	if len(in.Members) == 0 {
		return nil // this member is about to register
	}
	if err = l.write(ctx, in, records); err == nil || ctx.Err() != nil {
		l.backoff.Succeeded()
		return nil
	}
	pause := l.backoff.Failed(0)
	l.opts.Logger.Error("partitions were not assigned", "path", l.Path(), "member", l.opts.ID, "again_in", pause, "error", err)
	l.dueBy(time.Now().Add(pause))
	return nil
}

// write computes the assignment, and writes the records that differ in one transaction with a check that the term lasts.
func (l *leader) write(ctx context.Context, in Input, records stored) error {
	assigned, err := l.opts.assignment(in)
	if err != nil {
		return err
	}
	ops, err := changes(l.path+"/assigned", l.term.Token(), records, l.census.records(in, assigned), client.Of(l.client).ACL())
	if err != nil || len(ops) == 0 {
		return err
	}
	_, err = l.term.Commit(ctx, ops...)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	// An operator has deleted a record since it was read, or the node above the records with all of them: only the leader creates that.
	if err = l.shares.Create(ctx, nil); err == nil {
		_, err = l.term.Commit(ctx, ops...)
	}
	return err
}

// sets yields the partitions, and then each change. It yields nothing while the node has none, or other data: then the records stay as they are. At
// first it stores Options.Partitions if the node is missing: else the partitions of members that leave would never move.
func (a *Assign) sets(ctx context.Context) iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		for stored := a.opts.Partitions == nil; ; {
			s, changed, err := a.set.Watch(ctx)
			if err == nil && s.Partitions == nil && !stored {
				if err = a.storeOptions(ctx); err == nil {
					stored = true
					continue
				}
			}
			switch {
			case record.IsForeign(err):
				a.opts.Logger.Error("partitions cannot be read", "path", a.set.Path(), "error", err)
			case err != nil || s.Partitions != nil:
				if !yield(s.Partitions, err) || err != nil {
					return
				}
				stored = true // after a deletion in this term the leader continues with these
			default:
				a.opts.Logger.Warn("no set of partitions is stored", "path", a.set.Path(), "member", a.opts.ID)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}
}

// A read is a value that was read, or why it could not be read.
type read[T any] struct {
	value T
	err   error
}

// newest reads a sequence on a goroutine of group, until ctx is done. The channel has the newest value that was not received.
func newest[T any](ctx context.Context, group *sync.WaitGroup, all iter.Seq2[T, error]) <-chan read[T] {
	values := make(chan read[T], 1)
	group.Go(func() {
		for value, err := range all {
			select {
			case <-values: // not received, and older
			default:
			}
			values <- read[T]{value, err}
			if ctx.Err() != nil {
				return
			}
		}
	})
	return values
}
