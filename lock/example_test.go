// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A Ledger is the resource that the lock protects. It checks the token of each write, because a writer that was paused
// does not know that it has lost the lock.
type Ledger struct {
	mu    sync.Mutex
	gate  fencing.Gate // called under mu, so that no newer write comes between the check and this write
	entry string       // guarded by mu
}

// Put writes entry, unless a newer token was admitted before.
func (l *Ledger) Put(ctx context.Context, token fencing.Token, entry string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := errors.Join(ctx.Err(), l.gate.Admit(token)); err != nil {
		return fmt.Errorf("ledger: put %q: %w", entry, err)
	}
	l.entry = entry
	return nil
}

// A later holder has a greater token. So a write that was delayed until after another holder's write is rejected,
// whatever its sender believes.
func ExampleMutex_Lock() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mu, err := lock.New(client, "/locks/ledger", nil)
	if err != nil {
		log.Fatal(err)
	}
	var ledger Ledger

	write := func(entry string) (token fencing.Token, err error) {
		hold, err := mu.Lock(ctx) // ctx bounds the wait, not the hold
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, hold.Unlock(ctx)) }() // ErrLost if the lock was lost before
		work, cancel := hold.Context(ctx)                           // done when ctx is, or when the hold is lost
		defer cancel()
		return hold.Token(), ledger.Put(work, hold.Token(), entry)
	}
	early, err := write("opened")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := write("corrected"); err != nil {
		log.Fatal(err)
	}

	err = ledger.Put(ctx, early, "closed") // delayed by the network
	fmt.Println("rejected as stale:", errors.Is(err, fencing.ErrStale))
	fmt.Println("ledger:", ledger.entry)
	// Output:
	// rejected as stale: true
	// ledger: corrected
}

// Do is the short form: the function's context ends when the lock is lost, and the lock is released after the function
// has returned.
func ExampleMutex_Do() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mu, err := lock.New(client, "/locks/ledger", nil)
	if err != nil {
		log.Fatal(err)
	}
	var ledger Ledger

	err = mu.Do(ctx, func(ctx context.Context, hold *lock.Hold) error {
		return ledger.Put(ctx, hold.Token(), "balanced")
	})
	if err != nil { // from Lock or the function, or ErrLost: the lock was lost before the function returned
		log.Fatal(err)
	}
	fmt.Println("ledger:", ledger.entry)
	// Output:
	// ledger: balanced
}

// A job that must run in one place does not wait for the lock: if another process holds it, the job runs there.
func ExampleMutex_TryLock() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, strings.Split(os.Getenv("ZK_SERVERS"), ","), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	mu, err := lock.New(client, "/locks/report", &lock.Options{Owner: "pod-7"})
	if err != nil {
		log.Fatal(err)
	}
	var ledger Ledger

	report := func() (err error) {
		hold, err := mu.TryLock(ctx)
		var held *lock.HeldError
		if errors.As(err, &held) { // as errors.Is(err, lock.ErrLocked), and names the holder
			fmt.Println("nothing to do, the job runs on", held.Holder.Owner)
			return nil
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, hold.Unlock(ctx)) }()
		return ledger.Put(ctx, hold.Token(), "report")
	}

	elsewhere, err := mu.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := report(); err != nil {
		log.Fatal(err)
	}
	if err := elsewhere.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	if err := report(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("ledger:", ledger.entry)
	// Output:
	// nothing to do, the job runs on pod-7
	// ledger: report
}
