// SPDX-License-Identifier: Apache-2.0

package assign

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/backoff"
)

// Defaults of the options of the same names.
const (
	DefaultRebalanceWait   = time.Second
	DefaultRejoinWait      = 10 * time.Second
	DefaultRetryBackoff    = time.Second
	DefaultMaxRetryBackoff = time.Minute
)

// MaxMetadata bounds Options.Metadata, in bytes: each leader reads the metadata of all members.
const MaxMetadata = 32 << 10

// Options are the options of an Assign. The zero value of a field means its default.
type Options struct {
	// ID identifies this member. No two running processes may have the same: the second waits until the first has left. A killed process
	// that restarts with its ID within RejoinWait gets its partitions back. The default is the client's Options.Owner, which must be set then. An ID
	// has no slash, and at most 256 bytes.
	ID string

	// Weight is this member's share of the partitions in proportion to the other weights, 1 to MaxWeight. The default is 1.
	Weight int

	// Metadata is passed to Assign, for example a zone.
	Metadata []byte

	// Partitions are the names of the partitions. Run stores them unless a set is stored already. SetPartitions changes the set.
	Partitions []string

	// Assign returns the ID of a member for each partition. The default is Balanced. The leader calls it, one call at a time,
	// RebalanceWait after a change. If it panics, or does not give each partition to one of the members, the records stay as they
	// are: the leader logs the reason and calls it again after the next change, or after a back-off. It should return soon, and depend on nothing but the
	// input, as any member can be the leader.
	Assign func(Input) (map[string]string, error)

	// RebalanceWait is how long the leader waits after a first change of members or partitions, so that several changes become one
	// assignment. The default is DefaultRebalanceWait.
	RebalanceWait time.Duration

	// RejoinWait is how long the partitions of this member wait for it after its session has ended without notice. Then they move. It
	// begins again when the leader changes. The default is DefaultRejoinWait; for almost no wait, set it to a nanosecond.
	RejoinWait time.Duration

	// StopTimeout bounds how long Run waits for work whose context is done. Then Run ends all other work and returns
	// election.ErrOverrun. The default is to wait without a bound.
	StopTimeout time.Duration

	// ReleaseTimeout bounds the release of a partition. The default is the session timeout.
	ReleaseTimeout time.Duration

	// Retry, if not nil, is called with each error with which work failed while its partition was owned, after the release, and with
	// each error with which a server refused to let this member queue. A panic of work is an *election.PanicError. If Retry returns true, the
	// member backs off and queues for the partition again. If it returns false, Run ends with the error. Calls can be concurrent. The
	// default logs the error and returns true.
	Retry func(partition string, err error) bool

	// RetryBackoff is the time after a first failure of a partition's work, or after work that returned nil early, until the member
	// queues again. The default is DefaultRetryBackoff. It doubles with each further one, up to MaxRetryBackoff, whose default is
	// DefaultMaxRetryBackoff, and is reset after work that ran for MaxRetryBackoff. A random part of up to a half is subtracted.
	RetryBackoff    time.Duration
	MaxRetryBackoff time.Duration

	// Health, if not nil, reports why this process should own no partitions, nil if it is fit to. Run calls it before it joins, and
	// then election.DefaultHealthInterval after each answer. An error, a panic, and no answer within election.DefaultHealthTimeout
	// make the member leave: Run returns election.ErrUnhealthy with the reason, after all work has returned. Its context is done after that timeout,
	// and when Run ends. Run waits for a call that continues for the same time once more, and then returns without it.
	Health func(ctx context.Context) error

	// Logger receives the failures that no call returns; the default is slog.Default.
	Logger *slog.Logger

	_ struct{}
}

func (o *Options) check() error {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"rebalance wait", o.RebalanceWait},
		{"rejoin wait", o.RejoinWait},
		{"stop timeout", o.StopTimeout},
		{"release timeout", o.ReleaseTimeout},
		{"retry back-off", o.RetryBackoff},
		{"maximum retry back-off", o.MaxRetryBackoff},
	} {
		if d.value < 0 {
			return fmt.Errorf("%s %v is negative", d.name, d.value)
		}
	}
	switch {
	case o.Weight < 0 || o.Weight > MaxWeight:
		return fmt.Errorf("weight %d is not between 1 and %d", o.Weight, MaxWeight)
	case len(o.Metadata) > MaxMetadata:
		return fmt.Errorf("metadata of %d bytes is over the limit of %d", len(o.Metadata), MaxMetadata)
	}
	if b := o.backoff(); b.Max < b.Min {
		return fmt.Errorf("maximum retry back-off %v is below the retry back-off %v", b.Max, b.Min)
	}
	return nil
}

func (o *Options) backoff() backoff.Backoff {
	return backoff.New(cmp.Or(o.RetryBackoff, DefaultRetryBackoff), cmp.Or(o.MaxRetryBackoff, DefaultMaxRetryBackoff))
}

// withDefaults returns the options, which are valid, with the defaults of those that are not set.
func (o Options) withDefaults(owner string) Options {
	o.ID = cmp.Or(o.ID, owner)
	o.Weight = cmp.Or(o.Weight, 1)
	o.RebalanceWait = cmp.Or(o.RebalanceWait, DefaultRebalanceWait)
	o.RejoinWait = cmp.Or(o.RejoinWait, DefaultRejoinWait)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Assign == nil {
		o.Assign = Balanced
	}
	if o.Retry == nil {
		o.Retry = func(partition string, err error) bool {
			o.Logger.Error("work of a partition failed", "member", o.ID, "partition", partition, "error", err)
			return true
		}
	}
	return o
}

// assignment calls Assign, and returns its result if that is complete.
func (o *Options) assignment(in Input) (assigned map[string]string, err error) {
	err = call(func() (err error) {
		assigned, err = o.Assign(in.clone())
		return err
	})
	if err == nil {
		err = in.check(assigned)
	}
	if err != nil {
		return nil, fmt.Errorf("assignment function: %w", err)
	}
	return assigned, nil
}
