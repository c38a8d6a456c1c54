// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
	"github.com/lockkeeper/lockkeeper/fencing/objectfence"
	"github.com/lockkeeper/lockkeeper/internal/child"
)

// unconditional is a store that ignores conditions.
type unconditional struct{ objectfence.Store }

func (s unconditional) Put(ctx context.Context, key string, body []byte, _ string) error {
	for {
		object, err := s.Get(ctx, key)
		if err != nil && !errors.Is(err, objectfence.ErrNotFound) {
			return err
		}
		runtime.Gosched() // a request takes time
		if err := s.Store.Put(ctx, key, body, object.Version); !errors.Is(err, objectfence.ErrPrecondition) {
			return err
		}
	}
}

// replacing is a store that honours the condition of a replacement, and ignores the condition of a creation.
type replacing struct{ objectfence.Store }

func (s replacing) Put(ctx context.Context, key string, body []byte, replaces string) error {
	if replaces != "" {
		return s.Store.Put(ctx, key, body, replaces)
	}
	return unconditional(s).Put(ctx, key, body, replaces)
}

// creating is a store that honours the condition of a creation, and ignores the condition of a replacement.
type creating struct{ objectfence.Store }

func (s creating) Put(ctx context.Context, key string, body []byte, replaces string) error {
	if replaces == "" {
		return s.Store.Put(ctx, key, body, replaces)
	}
	return unconditional(s).Put(ctx, key, body, replaces)
}

// racy is a store that checks the condition and writes in two steps.
type racy struct{ objectfence.Store }

func (s racy) Put(ctx context.Context, key string, body []byte, replaces string) error {
	object, err := s.Get(ctx, key)
	if err != nil && !errors.Is(err, objectfence.ErrNotFound) {
		return err
	}
	if object.Version != replaces {
		return objectfence.ErrPrecondition
	}
	runtime.Gosched()
	return unconditional(s).Put(ctx, key, body, "")
}

// racyCreating is a store that replaces in one step, and creates in two: it looks for the object, and writes. Between the two
// steps, a creation of Probe's object waits for another one.
type racyCreating struct {
	objectfence.Store
	checked *atomic.Int32 // number of creations of Probe's object that are past the first step
	another chan struct{} // closed when there are two
}

func newRacyCreating(s objectfence.Store) objectfence.Store {
	return racyCreating{s, &atomic.Int32{}, make(chan struct{})}
}

func (s racyCreating) Put(ctx context.Context, key string, body []byte, replaces string) error {
	if replaces != "" {
		return s.Store.Put(ctx, key, body, replaces)
	}
	if _, err := s.Get(ctx, key); !errors.Is(err, objectfence.ErrNotFound) {
		return errors.Join(err, objectfence.ErrPrecondition)
	}
	if key == probed {
		if s.checked.Add(1) == 2 {
			close(s.another)
		}
		select {
		case <-s.another:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	runtime.Gosched()
	return unconditional{s.Store}.Put(ctx, key, body, "")
}

// broken contains stores that a guard must not be used with, and the errors of Probe for each.
var broken = map[string]struct {
	view         func(objectfence.Store) objectfence.Store
	unused, used string // with a key without an object, and with the object of an earlier Probe
}{
	"ignores conditions": {
		func(s objectfence.Store) objectfence.Store { return unconditional{s} },
		"writes created the same object", "create an object that exists",
	},
	"ignores If-None-Match": {
		func(s objectfence.Store) objectfence.Store { return replacing{s} },
		"writes created the same object", "create an object that exists",
	},
	"ignores If-Match": {
		func(s objectfence.Store) objectfence.Store { return creating{s} },
		"replace a version that no longer exists", "replace a version that no longer exists",
	},
	"checks and writes separately": {
		func(s objectfence.Store) objectfence.Store { return racy{s} },
		"writes ", "writes replaced the same version",
	},
	"checks and creates separately": {
		newRacyCreating,
		"writes created the same object", "",
	},
}

// probed is the key of Probe's object.
const probed = "probe"

func TestGuardOfUnconditionalStoreFailsSuite(t *testing.T) {
	for name := range broken {
		t.Run(name, func(t *testing.T) {
			child.RequireFailure(t, "TestSuiteInChildProcess", "of two writers racing the newer wins", name)
		})
	}
}

// This test fails by design: TestGuardOfUnconditionalStoreFailsSuite runs it in a child process and checks how it fails.
func TestSuiteInChildProcess(t *testing.T) {
	var name string
	child.Task(t, &name)
	fencetest.Run(t, func(*testing.T) fencetest.Subject { return subject(broken[name].view) })
}

func TestProbeDetectsStoresThatIgnoreConditions(t *testing.T) {
	memory := &objectfence.Memory{}
	for range 2 { // the second Probe finds the object of the first
		require.NoError(t, objectfence.Probe(t.Context(), memory, probed))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, store := range broken {
		err := objectfence.Probe(ctx, store.view(&objectfence.Memory{}), probed)
		require.ErrorIs(t, err, objectfence.ErrUnconditional, name)
		require.ErrorContains(t, err, store.unused)

		err = objectfence.Probe(ctx, store.view(memory), probed)
		if store.used == "" {
			require.NoError(t, err, "only a key without an object tests the creation")
			continue
		}
		require.ErrorIs(t, err, objectfence.ErrUnconditional, name)
		require.ErrorContains(t, err, store.used)
	}
}

// S3 may answer concurrent creations of one object with a conflict each.
func TestProbeCreatesObjectAfterEachConcurrentCreationWasRefused(t *testing.T) {
	var (
		memory  objectfence.Memory
		refused atomic.Int32
	)
	store := &faulty{Store: &memory, put: func(key string, body []byte, replaces string) error {
		if replaces == "" && refused.Add(1) <= 8 {
			return objectfence.ErrPrecondition
		}
		return memory.Put(t.Context(), key, body, replaces)
	}}
	require.NoError(t, objectfence.Probe(t.Context(), store, probed))
}

func TestProbeReportsOtherFailures(t *testing.T) {
	down := errors.New("down")
	for want, store := range map[string]func(m *objectfence.Memory) *faulty{
		"get: down": func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, get: func(string) (objectfence.Object, error) { return objectfence.Object{}, down }}
		},
		"concurrent put: down": func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, put: func(string, []byte, string) error { return down }}
		},
		`put with version "`: func(m *objectfence.Memory) *faulty {
			require.NoError(t, objectfence.Probe(t.Context(), m, probed))
			return &faulty{Store: m, put: func(string, []byte, string) error { return down }}
		},
		"create an object that exists: want ErrPrecondition: down": func(m *objectfence.Memory) *faulty {
			require.NoError(t, objectfence.Probe(t.Context(), m, probed))
			return &faulty{Store: m, put: func(key string, body []byte, replaces string) error {
				if m.Put(t.Context(), key, body, replaces) != nil {
					return down
				}
				return nil
			}}
		},
		"get after put: want the object that was put": func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, get: func(string) (objectfence.Object, error) {
				return objectfence.Object{Body: []byte("lockkeeper probe of a cache")}, nil
			}}
		},
		"get after put: the version is empty": func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, get: func(key string) (objectfence.Object, error) {
				object, err := m.Get(t.Context(), key)
				object.Version = ""
				return object, err
			}}
		},
	} {
		err := objectfence.Probe(t.Context(), store(&objectfence.Memory{}), probed)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `objectfence: probe "probe": `)
		require.NotErrorIs(t, err, objectfence.ErrUnconditional)
	}
}

func TestProbeLeavesOtherObjectsUnchanged(t *testing.T) {
	memory := &objectfence.Memory{}
	guard := guardOf(t, memory)
	require.NoError(t, guard.Put(t.Context(), "ledger", 9, []byte("nine")))
	require.ErrorContains(t, objectfence.Probe(t.Context(), memory, "ledger"), "not written by Probe")

	first := true
	written := &faulty{Store: memory, get: func(key string) (objectfence.Object, error) {
		if first { // the object is written after that
			first = false
			return objectfence.Object{}, objectfence.ErrNotFound
		}
		return memory.Get(t.Context(), key)
	}}
	require.ErrorContains(t, objectfence.Probe(t.Context(), written, "ledger"), "not written by Probe")
	require.ErrorIs(t, guard.Put(t.Context(), "ledger", 8, nil), fencing.ErrStale, "the fence is still there")
}
