// SPDX-License-Identifier: Apache-2.0

package objectfence_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

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

// broken contains stores that a guard must not be used with, and the error of Probe for each.
var broken = map[string]struct {
	view func(objectfence.Store) objectfence.Store
	want string
}{
	"ignores conditions":           {func(s objectfence.Store) objectfence.Store { return unconditional{s} }, "create an object that exists"},
	"ignores If-None-Match":        {func(s objectfence.Store) objectfence.Store { return replacing{s} }, "create an object that exists"},
	"ignores If-Match":             {func(s objectfence.Store) objectfence.Store { return creating{s} }, "replace a version that no longer exists"},
	"checks and writes separately": {func(s objectfence.Store) objectfence.Store { return racy{s} }, "writes replaced the same version"},
}

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
		require.NoError(t, objectfence.Probe(t.Context(), memory, "probe"))
	}
	for name, store := range broken {
		for _, objects := range []*objectfence.Memory{{}, memory} {
			err := objectfence.Probe(t.Context(), store.view(objects), "probe")
			require.ErrorIs(t, err, objectfence.ErrUnconditional, name)
			require.ErrorContains(t, err, store.want)
		}
	}
}

func TestProbeReportsOtherFailures(t *testing.T) {
	down := errors.New("down")
	for want, store := range map[string]func(m *objectfence.Memory) *faulty{
		"get: down": func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, get: func(string) (objectfence.Object, error) { return objectfence.Object{}, down }}
		},
		`put with version "": down`: func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, put: func(string, []byte, string) error { return down }}
		},
		"create an object that exists: want ErrPrecondition: down": func(m *objectfence.Memory) *faulty {
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
		`put with version "": the new version is ""`: func(m *objectfence.Memory) *faulty {
			return &faulty{Store: m, get: func(key string) (objectfence.Object, error) {
				object, err := m.Get(t.Context(), key)
				object.Version = ""
				return object, err
			}}
		},
	} {
		err := objectfence.Probe(t.Context(), store(&objectfence.Memory{}), "probe")
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
	require.ErrorIs(t, guard.Put(t.Context(), "ledger", 8, nil), fencing.ErrStale, "the fence is still there")
}
