// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// SlotLimit is the limit of the slots at first. Then one process resizes them to 1 to mostSlots.
const (
	SlotLimit = 2
	mostSlots = 4
)

func init() {
	kinds[slot] = kind{acquire: slots((*lock.Slots).Acquire)}
	kinds[trySlot] = kind{acquire: slots((*lock.Slots).TryAcquire)}
	tasks = append(tasks, task{"limit of the slots", func(s *Spec) bool { return s.ResizesSlots }, resizeSlots})
}

// drawSlot replaces an operation on the path of the slots. A lock there counts as all slots.
func (a *workloadClient) drawSlot(how string) string {
	switch {
	case how == "try":
		return trySlot
	case how == "lock" && a.rand.IntN(8) == 0:
		return how
	}
	return slot
}

// slots returns a function that acquires a slot.
func slots(take func(*lock.Slots, context.Context) (*lock.Slot, error)) func(*lockkeeperClient, context.Context, string) (Hold, error) {
	return func(c *lockkeeperClient, ctx context.Context, path string) (Hold, error) {
		take := func(limit int) (*lock.Slot, error) {
			s, err := lock.NewSlots(c.client, path, limit, &lock.SemaphoreOptions{Owner: c.name})
			if err != nil {
				return nil, err
			}
			return take(s, ctx)
		}
		got, err := take(0) // it may have been resized
		if errors.Is(err, lock.ErrNoLimit) {
			got, err = take(SlotLimit)
		}
		if errors.As(err, new(*lock.LimitError)) { // another process has stored a limit meanwhile, and resized it
			got, err = take(0)
		}
		if err != nil {
			return nil, err
		}
		return slotHold{lockkeeperHold{got.Claim, c.client, got.Unlock}, got.Number()}, nil
	}
}

// slotHold is a hold of a slot.
type slotHold struct {
	lockkeeperHold

	number int
}

func (h slotHold) Grant() history.Event {
	granted := h.lockkeeperHold.Grant()
	granted.Number = strconv.Itoa(h.number)
	return granted
}

// resizeSlots changes the limit of the slots again and again, when those that it removes are not in use.
func resizeSlots(ctx context.Context, client *recipes.Client, spec *Spec, _ func(history.Event)) error {
	random := rand.New(rand.NewPCG(spec.Seed, 1<<33))
	s, err := lock.NewSlots(client, spec.Slots, SlotLimit, &lock.SemaphoreOptions{Owner: spec.Name})
	if err != nil {
		return err
	}
	for {
		select {
		case <-time.After(time.Duration(random.Int64N(int64(spec.Timeout) / 4))):
		case <-ctx.Done():
			return nil
		}
		resizing, cancel := context.WithTimeout(ctx, 2*time.Duration(spec.Timeout))
		err := s.Resize(resizing, 1+random.IntN(mostSlots))
		expired := resizing.Err() != nil
		cancel()
		if err != nil && !expired && !errors.As(err, new(*lock.HeldError)) && !errors.Is(err, recipes.ErrUncertain) {
			return err
		}
	}
}
