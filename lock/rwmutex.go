// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/downgrade"
	"github.com/lockkeeper/lockkeeper/internal/protocol"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// An RWMutex is a read/write lock on a path: any number of read holds are open at a time, or one
// write hold, across all processes that use the path, under the conditions that the package
// documentation states.
//
// Readers and writers get the lock in the order in which they joined the queue. Readers that no
// writer separates share it. A reader behind a waiting writer waits for it, so that readers never
// starve writers; a holder of a read hold that takes another one can therefore deadlock with a
// writer in between. A write hold can be downgraded to a read hold. A read hold cannot be upgraded:
// two readers that both wait to become the writer would wait for each other. Unlock it, take the
// write lock, and read again.
//
// On the same path, a Mutex, an election and a lease count as writers. Curator's
// InterProcessReadWriteLock may share the path with RWMutexes alone: it does not know the names of
// the others. zk.Lock may share it, and counts as a writer. A version of this module without RWMutex does not respect its holds.
//
// An RWMutex is safe for concurrent use, and calls from one process exclude each other like calls
// from several processes. It is not re-entrant.
type RWMutex struct {
	mutex *Mutex
}

// RWOptions are the options of an RWMutex. The zero value of a field means its default.
//
// There is no LockDelay and no Fence: several readers hold the lock at the same time, and the
// breadcrumb of a Mutex names one holder. Nor is there a Reentrant, which would need two kinds of
// nested hold.
type RWOptions struct {
	// Owner and ReleaseTimeout are as in Options.
	Owner          string
	ReleaseTimeout time.Duration

	_ struct{}
}

// NewRW returns the read/write lock at path, as New does for a Mutex.
func NewRW(client *recipes.Client, path string, opts *RWOptions) (*RWMutex, error) {
	if opts == nil {
		opts = &RWOptions{}
	}
	mutex, err := New(client, path, &Options{Owner: opts.Owner, ReleaseTimeout: opts.ReleaseTimeout})
	if err != nil {
		return nil, err
	}
	return &RWMutex{mutex: mutex}, nil
}

// A WriteHold is a hold of an RWMutex that excludes all others. It has the methods of a Hold, and
// Downgrade.
type WriteHold struct {
	*Hold
}

// Downgrade makes the write hold a read hold, with no moment in between at which another writer
// could have the lock. Readers waiting directly behind it get the lock too. Token, Done and Unlock
// are the same hold's; Shared reports true from now on. It costs a read and a write.
//
// It returns nil if the hold is a read hold, also if it was downgraded before, and
// recipes.ErrLost, with the cause, if the hold has ended. After recipes.ErrUncertain, which means
// that ctx ended before the answer to the write arrived, the hold is open, and readers may have
// the lock too: call Downgrade again, or Unlock. After any other error, it is a write hold as
// before.
//
// After a Downgrade, have resources admit the token as a shared one: see fencing.Gate.AdmitShared.
// Stop writing before the call: the lock does not exclude readers any more.
func (h *WriteHold) Downgrade(ctx context.Context) error {
	if err := downgrade.Claim(ctx, h.Claim); err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	return nil
}

// Lock waits until the lock is free and takes it for writing. It waits and fails as Mutex.Lock
// does.
func (m *RWMutex) Lock(ctx context.Context) (*WriteHold, error) {
	return writeHold(m.mutex.lockAs(ctx, protocol.Write))
}

// TryLock takes the lock for writing if it is free and has no waiters, and otherwise fails as
// Mutex.TryLock does.
func (m *RWMutex) TryLock(ctx context.Context) (*WriteHold, error) {
	return writeHold(m.mutex.tryAs(ctx, protocol.Write))
}

func writeHold(hold *Hold, err error) (*WriteHold, error) {
	if err != nil {
		return nil, err
	}
	return &WriteHold{hold}, nil
}

// RLock waits until no writer holds the lock or waits ahead of this call, and takes the lock for
// reading. It waits and fails as Mutex.Lock does; the holder that a *HeldError names is the first
// contender in the queue.
//
// The Hold is shared: its token is greater than the tokens of all earlier writers, and is admitted by
// fencing.Gate.AdmitShared.
func (m *RWMutex) RLock(ctx context.Context) (*Hold, error) {
	return m.mutex.lockAs(ctx, protocol.Read)
}

// TryRLock takes the lock for reading if no writer holds it or waits for it. Otherwise its error
// is a *HeldError, which names the first such writer and matches ErrLocked. It
// waits for answers only, as Mutex.TryLock does, and creates nothing if it finds a writer.
func (m *RWMutex) TryRLock(ctx context.Context) (*Hold, error) {
	return m.mutex.tryAs(ctx, protocol.Read)
}

// Do takes the lock for writing, runs f, and releases the lock: see Mutex.Do. f may downgrade the
// hold.
func (m *RWMutex) Do(ctx context.Context, f func(ctx context.Context, hold *WriteHold) error) error {
	hold, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return hold.do(ctx, func(ctx context.Context, _ *Hold) error { return f(ctx, hold) })
}

// RDo takes the lock for reading, runs f, and releases the lock: see Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, f func(ctx context.Context, hold *Hold) error) error {
	hold, err := m.RLock(ctx)
	if err != nil {
		return err
	}
	return hold.do(ctx, f)
}

// RLocker returns a Mutex whose Lock, TryLock and Do take the lock for reading, as RLock, TryRLock and RDo do: for All, and for code
// that takes a Mutex. Its holds are shared.
func (m *RWMutex) RLocker() *Mutex { return m.as(protocol.Read) }

// Locker returns a Mutex whose Lock, TryLock and Do take the lock for writing, as m's do: for All, and for code that takes a
// Mutex.
func (m *RWMutex) Locker() *Mutex { return m.as(protocol.Write) }

func (m *RWMutex) as(mode protocol.Mode) *Mutex {
	return &Mutex{client: m.mutex.client, queue: m.mutex.queue, mode: mode, holders: m.mutex.holders}
}

// Path returns the path of the lock, the client's namespace included.
func (m *RWMutex) Path() string { return m.mutex.Path() }

// Contenders returns the holders of the lock and its waiters, in the order of the queue. Readers
// have Shared set: those ahead of every other contender hold the lock. The result is the view of
// the server that this client is connected to, which may lag behind. It costs one read, and one
// more for each contender.
func (m *RWMutex) Contenders(ctx context.Context) ([]recipes.Contender, error) {
	contenders, err := m.mutex.queue.Contenders(ctx)
	if err != nil {
		return nil, fmt.Errorf("contenders: %w", err)
	}
	return contenders, nil
}
