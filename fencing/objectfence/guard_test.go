// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
)

// A faulty is a store that passes requests on, unless a function replaces them.
type faulty struct {
	objectfence.Store

	put func(key string, body []byte, replaces string) error
	get func(key string) (objectfence.Object, error)
}

func (f *faulty) Put(ctx context.Context, key string, body []byte, replaces string) error {
	if f.put != nil {
		return f.put(key, body, replaces)
	}
	return f.Store.Put(ctx, key, body, replaces)
}

func (f *faulty) Get(ctx context.Context, key string) (objectfence.Object, error) {
	if f.get != nil {
		return f.get(key)
	}
	return f.Store.Get(ctx, key)
}

func guardOf(t *testing.T, store objectfence.Store) *objectfence.Guard {
	t.Helper()
	return guardOfHistory(t, store, "")
}

func guardOfHistory(t *testing.T, store objectfence.Store, history string) *objectfence.Guard {
	t.Helper()
	guard, err := objectfence.New(store, &objectfence.Options{History: history})
	require.NoError(t, err)
	return guard
}

// guarded adapts a guard to the suite.
type guarded struct{ *objectfence.Guard }

func (g guarded) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return g.Put(ctx, resource, token, []byte(value))
}

func (g guarded) Value(ctx context.Context, resource string) (string, error) {
	body, err := g.Get(ctx, resource)
	if errors.Is(err, objectfence.ErrNotFound) {
		err = nil
	}
	return string(body), err
}

func (g guarded) Reset(ctx context.Context, resource string) error {
	return g.Guard.Reset(ctx, resource, 0)
}

// subject returns a guard of one Memory, which each process sees through view.
func subject(view func(objectfence.Store) objectfence.Store) fencetest.Subject {
	memory := &objectfence.Memory{}
	return fencetest.Subject{
		Open: func(t *testing.T) fencetest.Guarded {
			t.Helper()
			return guarded{guardOf(t, view(memory))}
		},
		OpenHistory: func(t *testing.T, history string) fencetest.Guarded {
			t.Helper()
			return guarded{guardOfHistory(t, view(memory), history)}
		},
		Uncertain: func(err error) bool { return errors.Is(err, objectfence.ErrUncertain) },
		// The torture module kills a process; here, a goroutine ends between the check and the write.
		Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
			t.Helper()
			dying := guardOf(t, &faulty{Store: view(memory), put: func(string, []byte, string) error {
				runtime.Goexit()
				return nil
			}})
			var group sync.WaitGroup
			group.Go(func() { _ = dying.Put(t.Context(), resource, token, []byte(value)) })
			group.Wait()
		},
	}
}

func TestGuardPassesSuite(t *testing.T) {
	fencetest.Run(t, func(*testing.T) fencetest.Subject {
		return subject(func(s objectfence.Store) objectfence.Store { return s })
	})
}

// The older holder has read the object and is paused. Meanwhile the newer holder writes the same body, or another body and
// then the same one. In S3, If-Match compares the hash of the bytes.
func TestNewerWriteOfSameBodyIsNotOverwritten(t *testing.T) {
	for _, bodies := range [][]string{{"same"}, {"another", "same"}} {
		memory := &objectfence.Memory{}
		newer := guardOf(t, memory)
		require.NoError(t, newer.Put(t.Context(), "ledger", 7, []byte("same")))
		paused := &faulty{Store: memory}
		paused.put = func(key string, body []byte, replaces string) error {
			paused.put = nil
			for _, body := range bodies {
				require.NoError(t, newer.Put(t.Context(), "ledger", 9, []byte(body)))
			}
			return memory.Put(t.Context(), key, body, replaces)
		}
		var stale *fencing.StaleError
		require.ErrorAs(t, guardOf(t, paused).Put(t.Context(), "ledger", 7, []byte("stale")), &stale)
		require.Equal(t, fencing.StaleError{Token: 7, Newest: 9}, *stale)
		body, err := newer.Get(t.Context(), "ledger")
		require.NoError(t, err)
		require.Equal(t, "same", string(body))
	}
}

func TestUpdateChangesCurrentBody(t *testing.T) {
	memory := &objectfence.Memory{}
	guard := guardOf(t, memory)
	seen := []string{}
	add := func(more string) func([]byte) ([]byte, error) {
		return func(body []byte) ([]byte, error) {
			seen = append(seen, string(body))
			return append(body, more...), nil
		}
	}
	require.NoError(t, guard.Update(t.Context(), "ledger", 7, func(body []byte) ([]byte, error) {
		require.Nil(t, body, "there is no object")
		return nil, nil
	}))
	require.NoError(t, guard.Update(t.Context(), "ledger", 7, func(body []byte) ([]byte, error) {
		require.NotNil(t, body, "there is an empty object")
		return []byte("a"), nil
	}))
	overtaken := &faulty{Store: memory}
	overtaken.put = func(key string, body []byte, replaces string) error {
		overtaken.put = nil
		require.NoError(t, guard.Update(t.Context(), key, 7, add("b")))
		return memory.Put(t.Context(), key, body, replaces)
	}
	require.NoError(t, guardOf(t, overtaken).Update(t.Context(), "ledger", 8, add("c")))
	require.Equal(t, []string{"a", "a", "ab"}, seen)
	body, err := guard.Get(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "abc", string(body))
}

func TestFunctionThatFailsWritesNothing(t *testing.T) {
	guard := guardOf(t, &objectfence.Memory{})
	require.NoError(t, guard.Put(t.Context(), "ledger", 7, []byte("seven")))
	unfit := errors.New("unfit")
	err := guard.Update(t.Context(), "ledger", 9, func([]byte) ([]byte, error) { return []byte("nine"), unfit })
	require.ErrorIs(t, err, unfit)
	require.NoError(t, guard.Put(t.Context(), "ledger", 7, []byte("seven again")), "9 was never admitted")
}

func TestObjectWithoutTokenIsNotWrittenUntilReset(t *testing.T) {
	memory := &objectfence.Memory{}
	require.NoError(t, memory.Put(t.Context(), "ledger", []byte("from before"), ""))
	guard := guardOf(t, memory)
	_, err := guard.Get(t.Context(), "ledger")
	require.ErrorIs(t, err, objectfence.ErrNoToken)
	_, err = guard.Newest(t.Context(), "ledger")
	require.ErrorIs(t, err, objectfence.ErrNoToken)
	for _, err := range []error{
		guard.Put(t.Context(), "ledger", 9, []byte("nine")),
		guard.Delete(t.Context(), "ledger", 9),
		guard.Update(t.Context(), "ledger", 9, func([]byte) ([]byte, error) { panic("the function was called") }),
	} {
		require.ErrorIs(t, err, objectfence.ErrNoToken)
		require.NotErrorIs(t, err, fencing.ErrStale)
		require.ErrorContains(t, err, "Reset gives it one")
	}
	object, err := memory.Get(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "from before", string(object.Body), "the object is unchanged")

	require.NoError(t, guard.Reset(t.Context(), "ledger", 9))
	body, err := guard.Get(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "from before", string(body))
	require.ErrorIs(t, guard.Put(t.Context(), "ledger", 8, []byte("stale")), fencing.ErrStale)
	require.NoError(t, guard.Put(t.Context(), "ledger", 9, []byte("nine")))
}

func TestDeletedObjectKeepsItsFence(t *testing.T) {
	memory := &objectfence.Memory{}
	guard := guardOf(t, memory)
	require.NoError(t, guard.Put(t.Context(), "ledger", 7, []byte("seven")))
	require.ErrorIs(t, guard.Delete(t.Context(), "ledger", 6), fencing.ErrStale)
	require.NoError(t, guard.Delete(t.Context(), "ledger", 9))
	require.NoError(t, guard.Delete(t.Context(), "ledger", 9), "a repeated Delete")
	_, err := guard.Get(t.Context(), "ledger")
	require.ErrorIs(t, err, objectfence.ErrNotFound)
	require.ErrorIs(t, guard.Put(t.Context(), "ledger", 7, []byte("stale")), fencing.ErrStale)
	newest, err := guard.Newest(t.Context(), "ledger")
	require.NoError(t, err)
	require.EqualValues(t, 9, newest)
	require.NoError(t, guard.Update(t.Context(), "ledger", 9, func(body []byte) ([]byte, error) {
		require.Nil(t, body)
		return []byte("nine"), nil
	}))

	require.NoError(t, guard.Reset(t.Context(), "other", 9))
	_, err = guard.Get(t.Context(), "other")
	require.ErrorIs(t, err, objectfence.ErrNotFound, "Reset has created no body")
	require.ErrorIs(t, guard.Put(t.Context(), "other", 8, []byte("stale")), fencing.ErrStale)
}

// An object of a release without histories, byte for byte.
const withoutHistory = "lockkeeper object 1\ntoken 9\nwrite 3UHFKW4QBZXPTMS2D6VLNRAY5E\n\nnine"

func TestObjectOfReleaseWithoutHistoriesAdoptsHistory(t *testing.T) {
	memory := &objectfence.Memory{}
	require.NoError(t, memory.Put(t.Context(), "ledger", []byte(withoutHistory), ""))
	guard := guardOfHistory(t, memory, "before")
	body, err := guard.Get(t.Context(), "ledger")
	require.NoError(t, err)
	require.Equal(t, "nine", string(body))
	require.ErrorIs(t, guard.Put(t.Context(), "ledger", 8, []byte("stale")), fencing.ErrStale)
	require.NoError(t, guardOf(t, memory).Put(t.Context(), "ledger", 9, []byte("nine")), "a guard without a history sets none")
	require.NoError(t, guard.Put(t.Context(), "ledger", 9, []byte("nine")))
	require.ErrorIs(t, guardOfHistory(t, memory, "after").Put(t.Context(), "ledger", 10, nil), fencing.ErrOtherHistory)
}

func TestDeletedObjectKeepsItsHistory(t *testing.T) {
	memory := &objectfence.Memory{}
	before, after := guardOfHistory(t, memory, "before"), guardOfHistory(t, memory, "after")
	require.NoError(t, before.Delete(t.Context(), "ledger", 9))
	for _, err := range []error{
		after.Put(t.Context(), "ledger", 10, nil),
		after.Delete(t.Context(), "ledger", 10),
		after.Update(t.Context(), "ledger", 10, func([]byte) ([]byte, error) { panic("the function was called") }),
	} {
		var other *fencing.HistoryError
		require.ErrorAs(t, err, &other)
		require.Equal(t, fencing.HistoryError{Token: 10, Given: "after", Stored: "before"}, *other)
		require.NotErrorIs(t, err, objectfence.ErrUncertain)
	}
	require.NoError(t, guardOf(t, memory).Delete(t.Context(), "ledger", 9))
	require.ErrorIs(t, after.Put(t.Context(), "ledger", 10, nil), fencing.ErrOtherHistory)
}

func TestResetOfObjectWithoutTokenSetsHistoryOfGuard(t *testing.T) {
	memory := &objectfence.Memory{}
	require.NoError(t, memory.Put(t.Context(), "ledger", []byte("from before"), ""))
	require.NoError(t, guardOfHistory(t, memory, "after").Reset(t.Context(), "ledger", 9))
	require.ErrorIs(t, guardOfHistory(t, memory, "before").Put(t.Context(), "ledger", 9, nil), fencing.ErrOtherHistory)
}

func TestMisuseIsReported(t *testing.T) {
	_, err := objectfence.New(nil, nil)
	require.ErrorContains(t, err, "the store is nil")
	_, err = objectfence.New(&objectfence.Memory{}, &objectfence.Options{History: "a history"})
	require.ErrorContains(t, err, `objectfence: new guard: the history id "a history" contains the character ' '`)
	require.ErrorContains(t, objectfence.Probe(t.Context(), nil, "probe"), "the store is nil")
	memory := &objectfence.Memory{}
	require.ErrorContains(t, objectfence.Probe(t.Context(), memory, ""), "name is empty")
	guard := guardOf(t, memory)
	require.ErrorContains(t, guard.Update(t.Context(), "ledger", 7, nil), "the function is nil")
	require.ErrorIs(t, guard.Reset(t.Context(), "ledger", -1), fencing.ErrInvalid)
	_, err = memory.Get(t.Context(), "ledger")
	require.ErrorIs(t, err, objectfence.ErrNotFound, "nothing was written")

	down := errors.New("down")
	unread := guardOf(t, &faulty{Store: memory, get: func(string) (objectfence.Object, error) {
		return objectfence.Object{}, down
	}})
	err = unread.Put(t.Context(), "ledger", 7, nil)
	require.ErrorIs(t, err, down)
	require.NotErrorIs(t, err, objectfence.ErrUncertain, "nothing was sent")
	unversioned := guardOf(t, &faulty{Store: memory, get: func(string) (objectfence.Object, error) {
		return objectfence.Object{Body: []byte("body")}, nil
	}})
	require.ErrorContains(t, unversioned.Put(t.Context(), "ledger", 7, nil), "the store returned no version")
}
