// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/permits"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// MaxSlots is the greatest limit of Slots.
const MaxSlots = permits.MaxNumbers

// Slots are a number of slots on a path, the limit, that calls share across all processes that use the path. Each call acquires one,
// and learns its number, from 0 to the limit - 1: "which of the n am I", for example the worker id of an id generator.
//
// Guarantee: while a Slot is open, no other open Slot has its number, and the number does not change. A number is free again only
// after an Unlock, T/4 after its holder's deadline (T is the session timeout), or at the end of its holder's session; Done is closed before each of these. The
// token rises with each grant of the number. Slots are granted in the order in which the calls joined the queue.
//
// Condition: the conditions of a Mutex, which the package documentation states. The token orders the holders of one number
// only, so name guarded resources by the number.
//
// Failure: if an operator deletes the contender's node, the holder loses the slot, and its number stays in use until Unlock or for T/4.
// If an operator deletes the number's node, <path>-limit/<number>, the number is free immediately, and its permit after Unlock or T/4. Its holder is notified when its server
// reports the deletion; an Unlock before that may delete the node of the next holder, who is notified in the same way.
//
// As for a Semaphore, the limit is stored, and Resize changes it. A Semaphore and Slots cannot have the same path; a Mutex
// on it counts as all slots, but its token and theirs have no order. A Slots is safe for concurrent use.
type Slots struct {
	semaphore *Semaphore
}

// A Slot is a hold of a slot. Its methods are a Hold's, and Number. Its token is exclusive: it orders the holders of the
// number.
type Slot struct{ *Hold }

// Number returns the number of the slot: the smallest that was free at its grant, but for the numbers that were left to
// contenders ahead. It stays the same.
func (s *Slot) Number() int { return permits.Number(s.Claim) }

// An Occupant is a slot that is in use.
type Occupant struct {
	Number int
	// Holder is the contender that has it. Its Name is the number, and its Token the token of the slot.
	Holder recipes.Contender
}

// NewSlots returns the slots at path with a limit of 1 to MaxSlots. It sends no request. A limit of 0 is the one that is stored: if
// none is, the methods return ErrNoLimit, and store nothing. opts may be nil.
func NewSlots(client *recipes.Client, path string, limit int, opts *SemaphoreOptions) (*Slots, error) {
	semaphore, err := newSemaphore(client, path, limit, opts, permits.NewNumbered)
	if err != nil {
		return nil, fmt.Errorf("new slots: %w", err)
	}
	return &Slots{semaphore}, nil
}

// Path returns the path of the slots, the client's namespace included.
func (s *Slots) Path() string { return s.semaphore.Path() }

// Acquire waits until a slot is free that no call ahead waits for, and takes it. It waits and fails as Semaphore.Acquire does.
func (s *Slots) Acquire(ctx context.Context) (*Slot, error) { return slot(s.semaphore.Acquire(ctx, 1)) }

// TryAcquire takes a slot if one is free and no call waits for it. It fails as Semaphore.TryAcquire does.
func (s *Slots) TryAcquire(ctx context.Context) (*Slot, error) {
	return slot(s.semaphore.TryAcquire(ctx, 1))
}

func slot(permits *Permits, err error) (*Slot, error) {
	if err != nil {
		return nil, err
	}
	return &Slot{permits.hold}, nil
}

// Do acquires a slot, runs f, and releases the slot: see Mutex.Do.
func (s *Slots) Do(ctx context.Context, f func(ctx context.Context, slot *Slot) error) error {
	slot, err := s.Acquire(ctx)
	if err != nil {
		return err
	}
	return slot.do(ctx, func(ctx context.Context, _ *Hold) error { return f(ctx, slot) })
}

// Limit is Semaphore.Limit.
func (s *Slots) Limit(ctx context.Context) (int, error) { return s.semaphore.Limit(ctx) }

// Resize changes the limit for all processes, as Semaphore.Resize does. It also returns an error that wraps a *HeldError while one of
// the numbers that it removes is in use, even if as many smaller numbers are free: a number never changes. The error's Holder has that
// number.
//
// A limit that is lower by thousands may be stored in several steps. If a later step fails, the error says so, and Limit returns a limit between both.
func (s *Slots) Resize(ctx context.Context, limit int) error {
	return s.semaphore.resized("slots", limit, s.semaphore.permits.Resize(ctx, limit))
}

// Holders returns the slots that are in use, in the order of their numbers, as the server that this client is connected to sees
// them. It costs one read, and one more for each.
func (s *Slots) Holders(ctx context.Context) ([]Occupant, error) {
	occupants, err := s.semaphore.permits.Occupants(ctx)
	if err != nil {
		return nil, fmt.Errorf("holders: %w", err)
	}
	all := make([]Occupant, len(occupants))
	for i, o := range occupants {
		all[i] = Occupant(o)
	}
	return all, nil
}
