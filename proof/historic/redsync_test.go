// SPDX-License-Identifier: Apache-2.0

package historic

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

var redsyncMutex = library{name: "redsync", short: "redsync", module: "github.com/go-redsync/redsync/v4"}

var ofRedsync = []bug{
	{
		library: &redsyncMutex, number: "72", report: "https://github.com/go-redsync/redsync/issues/72",
		wrong:  "`Valid` returns true after the lock expired while it waited; deprecated",
		here:   "`Hold.Check` returns `ErrLost`",
		theirs: redsyncIsValidAfterItsEnd, ours: checkReturnsTheLoss,
	},
	{
		library: &redsyncMutex, number: "158", report: "https://github.com/go-redsync/redsync/issues/158",
		wrong:  "`Extend` reports an expired, free lock as taken",
		here:   "`Hold.Err` states the cause",
		theirs: redsyncReportsAnotherHolder, ours: holdStatesItsCause,
	},
}

// A memory is a Redis with one key, in fake time. It is its own pool and connection.
type memory struct {
	mu      sync.Mutex // guards what follows
	value   string
	expires time.Time
	late    time.Duration // of replies to Get
}

func (m *memory) Get(name string) (string, error) {
	m.mu.Lock()
	value, late := m.read(), m.late
	m.mu.Unlock()
	time.Sleep(late)
	return value, nil
}

func (m *memory) read() string {
	if time.Now().Before(m.expires) {
		return m.value
	}
	return ""
}

func (m *memory) SetNX(_, value string, expiry time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read() != "" {
		return false, nil
	}
	m.value, m.expires = value, time.Now().Add(expiry)
	return true, nil
}

// Eval carries out redsync's scripts, which extend or delete the key if it has the value.
func (m *memory) Eval(script *redis.Script, keysAndArgs ...any) (any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.read() != keysAndArgs[1]:
		return int64(0), nil
	case strings.Contains(script.Src, "PEXPIRE"):
		m.expires = time.Now().Add(time.Duration(keysAndArgs[2].(int)) * time.Millisecond)
	default:
		m.expires = time.Time{}
	}
	return int64(1), nil
}

func (m *memory) setLate(late time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late = late
}

func (*memory) Set(string, string) (bool, error)   { panic("redsync does not call it") }
func (*memory) ScriptLoad(*redis.Script) error     { panic("redsync does not call it") }
func (*memory) PTTL(string) (time.Duration, error) { panic("redsync does not call it") }
func (*memory) Close() error                       { return nil }

// A pool returns the one connection.
type pool struct{ *memory }

func (p pool) Get(context.Context) (redis.Conn, error) { return p.memory, nil }

func redsyncIsValidAfterItsEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		m := &memory{}
		locks := redsync.New(pool{m})
		mutex, next := locks.NewMutex("a"), locks.NewMutex("a")
		require.NoError(t, mutex.Lock())
		m.setLate(timeout)
		valid := begin(t, func(ctx context.Context) (bool, error) { return mutex.ValidContext(ctx) }) //nolint:staticcheck // it is the reported one
		time.Sleep(timeout - time.Second)
		require.NoError(t, next.Lock(), "the lock has expired")
		require.True(t, valid.result(), "although another client holds it")
		require.True(t, time.Now().After(mutex.Until()))
	})
}

func checkReturnsTheLoss(t *testing.T) {
	bubble(t, func(s servers) {
		ours, link := s.mutex()
		hold, err := ours.Lock(s.Context())
		require.NoError(s, err)
		next, _ := s.mutex()
		waiting := begin(s.T, next.Lock)
		soon()
		link.Hold(zktest.ToClient)
		check := beginError(s.T, func() error { return hold.Check(s.Context()) })
		<-hold.Done()
		require.False(s, waiting.over(), "notified before the next grant")
		granted := waiting.result()
		link.Release() // the answer, which the server gave while the lock was held
		<-check.done
		require.ErrorIs(s, check.err, recipes.ErrLost)
		require.NoError(s, granted.Unlock(s.Context()))
	})
}

func redsyncReportsAnotherHolder(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		mutex := redsync.New(pool{&memory{}}).NewMutex("a")
		require.NoError(t, mutex.Lock())
		time.Sleep(timeout)
		extended, err := mutex.Extend()
		require.False(t, extended)
		require.ErrorAs(t, err, new(*redsync.ErrTaken), "the lock is free")
	})
}

func holdStatesItsCause(t *testing.T) {
	bubble(t, func(s servers) {
		ours, link := s.mutex()
		hold, err := ours.Lock(s.Context())
		require.NoError(s, err)
		time.Sleep(time.Hour)
		require.NoError(s, hold.Err(), "the session proves that it lives")
		link.Hold(zktest.Both)
		<-hold.Done()
		require.ErrorIs(s, hold.Err(), recipes.ErrLost)
		require.ErrorIs(s, hold.Err(), recipes.ErrDeadline)
		link.Reset()
		link.Release()
	})
}
