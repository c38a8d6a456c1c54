// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

func TestLostResponseIsUncertainUnlessObjectShowsWrite(t *testing.T) {
	lost := errors.New("connection reset")
	for name, c := range map[string]struct {
		lands     bool
		overtaken bool // by a newer write, before the object is read again
		unread    bool
		value     string
		known     bool
	}{
		"the object shows the write":    {lands: true, value: "nine", known: true},
		"the object cannot be read":     {lands: true, unread: true, value: "nine"},
		"a newer write has replaced it": {lands: true, overtaken: true, value: "ten"},
		"the write has not landed":      {value: "seven"},
		"a newer write came first":      {overtaken: true, value: "ten"},
	} {
		t.Run(name, func(t *testing.T) {
			memory := &objectfence.Memory{}
			others := guardOf(t, memory)
			require.NoError(t, others.Put(t.Context(), "ledger", 7, []byte("seven")))
			store := &faulty{Store: memory}
			store.put = func(key string, body []byte, replaces string) error {
				if c.lands {
					require.NoError(t, memory.Put(t.Context(), key, body, replaces))
				}
				if c.overtaken {
					require.NoError(t, others.Put(t.Context(), key, 10, []byte("ten")))
				}
				if c.unread {
					store.get = func(string) (objectfence.Object, error) { return objectfence.Object{}, lost }
				}
				return lost
			}
			err := guardOf(t, store).Put(t.Context(), "ledger", 9, []byte("nine"))
			if c.known {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, objectfence.ErrUncertain)
				require.ErrorIs(t, err, lost)
				require.NotErrorIs(t, err, fencing.ErrStale)
			}
			value, err := others.Get(t.Context(), "ledger")
			require.NoError(t, err)
			require.Equal(t, c.value, string(value))
		})
	}
}

func TestContextThatEndsDuringWriteLeavesItUncertain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	memory := &objectfence.Memory{}
	store := &faulty{Store: memory, put: func(string, []byte, string) error {
		cancel()
		return ctx.Err()
	}}
	err := guardOf(t, store).Put(ctx, "ledger", 9, []byte("nine"))
	require.ErrorIs(t, err, objectfence.ErrUncertain)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWriteRefusedBecauseOfItselfHasSucceeded(t *testing.T) {
	memory := &objectfence.Memory{}
	twice := &faulty{Store: memory}
	guard := guardOf(t, twice)
	ran := 0
	for range 2 {
		twice.put = func(key string, body []byte, replaces string) error {
			twice.put = nil
			require.NoError(t, memory.Put(t.Context(), key, body, replaces))
			return memory.Put(t.Context(), key, body, replaces)
		}
		require.NoError(t, guard.Update(t.Context(), "ledger", 9, func(body []byte) ([]byte, error) {
			ran++
			return append(body, 'x'), nil
		}))
	}
	body, err := guard.Get(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "xx", string(body))
	require.Equal(t, 2, ran)
}

func TestRefusalsOfCurrentVersionAreRetriedAndThenReported(t *testing.T) {
	for refusals, fails := range map[int]bool{0: false, 1: false, 7: false, 1000: true} {
		faketime.Test(t, func(t *testing.T) {
			memory := &objectfence.Memory{}
			attempts := 0
			guard := guardOf(t, &faulty{Store: memory, put: func(key string, body []byte, replaces string) error {
				if attempts++; attempts <= refusals {
					return objectfence.ErrPrecondition
				}
				return memory.Put(t.Context(), key, body, replaces)
			}})
			err := guard.Put(t.Context(), "ledger", 7, []byte("seven"))
			if !fails {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, objectfence.ErrPrecondition)
			require.ErrorContains(t, err, "refuses to replace the version that it has")
			require.NotErrorIs(t, err, objectfence.ErrUncertain)

			ctx, cancel := context.WithCancel(t.Context())
			attempts = 0
			go func() {
				synctest.Wait() // the guard is waiting for its retry
				cancel()
			}()
			require.ErrorIs(t, guard.Put(ctx, "ledger", 7, []byte("seven")), context.Canceled)
			require.Less(t, attempts, 8)
		})
	}
}

func TestRefusalsBetweenOtherWritesAreNotAddedUp(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		memory := &objectfence.Memory{}
		others := guardOf(t, memory)
		attempts := 0
		guard := guardOf(t, &faulty{Store: memory, put: func(key string, body []byte, replaces string) error {
			switch attempts++; {
			case attempts == 40:
				return memory.Put(t.Context(), key, body, replaces)
			case attempts%2 == 0:
				require.NoError(t, others.Put(t.Context(), key, 7, nil))
			}
			return objectfence.ErrPrecondition
		}})
		require.NoError(t, guard.Put(t.Context(), "ledger", 7, []byte("seven")))
	})
}
