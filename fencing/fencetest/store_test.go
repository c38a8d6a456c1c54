// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/fencing/fencetest"
)

// A store has values and fences in memory, and at most one fault.
type store struct {
	fault     fault
	longest   int // limit of a value, in bytes; zero is no limit
	mu        sync.Mutex
	newest    map[string]fencing.Token // guarded by mu
	histories map[string]string        // guarded by mu
	values    map[string]string        // guarded by mu
	written   []string                 // keys of newest, in the order of their first write; guarded by mu
	since     map[string]time.Time     // when a key of newest was written first; guarded by mu
}

func newStore(broken fault) *store {
	return &store{
		fault:  broken,
		newest: map[string]fencing.Token{}, histories: map[string]string{}, values: map[string]string{}, since: map[string]time.Time{},
	}
}

// A view is the store as a guard of one history sees it.
type view struct {
	*store
	history string
}

func (v view) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return v.write(ctx, v.history, resource, token, value)
}

func (v view) Reset(ctx context.Context, resource string) error {
	return v.reset(ctx, v.history, resource)
}

func (s *store) Write(ctx context.Context, resource string, token fencing.Token, value string) error {
	return s.write(ctx, "", resource, token, value)
}

func (s *store) Reset(ctx context.Context, resource string) error { return s.reset(ctx, "", resource) }

func (s *store) write(ctx context.Context, history, resource string, token fencing.Token, value string) error {
	if err := s.check(ctx, resource); err != nil {
		return err
	}
	if s.longest != 0 && len(value) > s.longest {
		value = value[:s.longest]
	}
	if s.fault == continuesLocked {
		return s.writeInBackground(ctx, history, resource, token, value)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key(resource)
	s.forget(key)
	before := s.newest[key]
	if s.fault == writesFirst {
		s.values[resource] = value
	}
	if err := s.admit(key, history, token); err != nil {
		if s.fault == sameIsDone && errors.Is(err, fencing.ErrStale) && s.values[resource] == value {
			return nil
		}
		return err
	}
	switch s.fault {
	case comparesContent:
		// It stores the token with the value, if the value has not changed since the check.
		for content := s.values[resource]; ; content = s.values[resource] {
			s.newest[key] = before
			s.mu.Unlock()
			delay()
			s.mu.Lock()
			if s.values[resource] == content {
				break
			}
			if err := s.order(key, token); err != nil {
				return err
			}
			before = s.newest[key]
		}
		s.newest[key] = token
	case checksOutside:
		s.mu.Unlock()
		delay()
		s.mu.Lock()
	case locksTwice:
		s.mu.Unlock()
		s.mu.Lock()
	case skipsUnchanged:
		if s.values[resource] == value {
			s.newest[key] = before
		}
	case emptyDeletes:
		if value == "" {
			delete(s.newest, key)
		}
	case continues:
		s.mu.Unlock()
		defer s.mu.Lock()
		return inBackground(ctx, func() {
			delay()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.values[resource] = value
		})
	}
	s.values[resource] = value
	return nil
}

// forget removes fences before a write of key, if that is the fault. The caller holds mu.
func (s *store) forget(key string) {
	if _, found := s.newest[key]; !found {
		s.written = append(s.written, key)
		s.since[key] = time.Now()
	}
	switch {
	case s.fault == keeps64 && len(s.written) > 64:
		delete(s.newest, s.written[0])
		s.written = s.written[1:]
	case s.fault == expires && time.Since(s.since[key]) > 100*time.Millisecond:
		delete(s.newest, key)
	}
}

// writeInBackground checks and writes in one step, and may return before that step has ended.
func (s *store) writeInBackground(ctx context.Context, history, resource string, token fencing.Token, value string) error {
	var refused error
	err := inBackground(ctx, func() {
		delay()
		s.mu.Lock()
		defer s.mu.Unlock()
		if refused = s.admit(s.key(resource), history, token); refused == nil {
			s.values[resource] = value
		}
	})
	if err != nil {
		return err
	}
	return refused
}

// delay takes a random time, as a write to a disk does.
func delay() {
	for range rand.IntN(200) {
		runtime.Gosched()
	}
}

// inBackground returns when write has returned or ctx is done. The goroutine that it may leave running is the fault.
func inBackground(ctx context.Context, write func()) error {
	written := make(chan struct{})
	go func() {
		defer close(written)
		write()
	}()
	select {
	case <-written:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit compares the histories, and then the tokens. The caller holds mu.
func (s *store) admit(key, history string, token fencing.Token) error {
	before := s.newest[key]
	if err := s.sameHistory(key, history, token); err != nil {
		return err
	}
	if s.fault == adoptsRefused && history != "" {
		s.histories[s.historyKey(key)] = history
	}
	err := s.order(key, token)
	switch {
	case err != nil:
		return err
	case s.fault == adoptsNewerOnly && token == before:
		return nil
	case s.fault == adoptsOutside:
		s.mu.Unlock()
		delay()
		s.mu.Lock()
	}
	if history != "" || s.fault == clearsHistory {
		s.histories[s.historyKey(key)] = history
	}
	return nil
}

func (s *store) sameHistory(key, history string, token fencing.Token) error {
	stored := s.histories[s.historyKey(key)]
	other := history != "" && stored != "" && history != stored
	if !other || !token.Valid() {
		return nil
	}
	switch s.fault {
	case ignoresHistory:
		return nil
	case otherIsStale:
		return &fencing.StaleError{Token: token, Newest: s.newest[key]}
	case newerIsAnyHistory:
		if token > s.newest[key] {
			return nil
		}
	}
	return &fencing.HistoryError{Token: token, Given: history, Stored: stored}
}

func (s *store) historyKey(key string) string {
	if s.fault == oneHistory {
		return "all"
	}
	return key
}

// order compares only the tokens.
func (s *store) order(key string, token fencing.Token) error {
	newest := s.newest[key]
	err := fencing.Check(token, max(0, newest)) // one that admits invalid tokens stores them
	stale := &fencing.StaleError{Token: token, Newest: newest}
	switch s.fault {
	case swapped:
		if err == nil && token == newest {
			err = stale
		}
	case acceptsOlder:
		if errors.Is(err, fencing.ErrStale) {
			return nil
		}
	case equality:
		if err == nil && newest != 0 && token != newest {
			err = stale
		}
	case neverRises:
		if err == nil && newest != 0 {
			return nil
		}
	case asFloat:
		if err != nil && float64(token) == float64(newest) {
			err = nil
		}
	case asText:
		if token.Valid() && newest != 0 {
			err = nil
			if token.String() < newest.String() {
				err = stale
			}
		}
	case admitsInvalid:
		if errors.Is(err, fencing.ErrInvalid) {
			return nil
		}
	case staleInvalid:
		if errors.Is(err, fencing.ErrInvalid) {
			err = stale
		}
	case bareStale:
		if errors.Is(err, fencing.ErrStale) {
			err = fencing.ErrStale
		}
	case refusalLowers:
		if errors.Is(err, fencing.ErrStale) {
			s.newest[key] = token
		}
	}
	if err == nil {
		s.newest[key] = token
	}
	return err
}

func (s *store) Value(ctx context.Context, resource string) (string, error) {
	if err := s.check(ctx, resource); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[resource], nil
}

func (s *store) reset(ctx context.Context, history, resource string) error {
	if err := s.check(ctx, resource); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.key(resource)
	switch s.fault {
	case noReset:
		return nil
	case resetsAll:
		clear(s.newest)
	default:
		delete(s.newest, key)
	}
	if s.fault != keepsHistory {
		s.histories[s.historyKey(key)] = history
	}
	return nil
}

func (s *store) check(ctx context.Context, resource string) error {
	if err := fencing.CheckResource(resource); err != nil && s.fault != anyName {
		return fmt.Errorf("store: %w", err)
	}
	if s.fault == ignoresContext {
		return nil
	}
	return ctx.Err()
}

func (s *store) key(resource string) string {
	switch s.fault {
	case oneFence:
		return "all"
	case foldsCase:
		return strings.ToLower(resource)
	case mapsColon:
		return strings.ReplaceAll(resource, ":", "_")
	}
	return resource
}

func subject(broken fault) fencetest.Subject {
	s := newStore(broken)
	if broken == truncatesValues {
		s.longest = longestValue
	}
	return fencetest.Subject{
		MaxValue:     s.longest,
		NoEmptyValue: broken == acceptsEmpty,
		Open: func(*testing.T) fencetest.Guarded {
			s.mu.Lock()
			defer s.mu.Unlock()
			switch broken {
			case losesTokens:
				clear(s.newest)
			case losesHistory:
				clear(s.histories)
			}
			return s
		},
		OpenHistory: func(_ *testing.T, history string) fencetest.Guarded { return view{s, history} },
		Uncertain:   func(error) bool { return broken == continues },
		Crash: func(t *testing.T, _ fencetest.Guarded, resource string, token fencing.Token, value string) {
			t.Helper()
			s.mu.Lock()
			defer s.mu.Unlock()
			switch broken {
			case raisesLast:
				s.values[resource] = value
			case leavesTornOnFail:
				s.values[resource] = value[:1]
			default:
				s.newest[resource] = token
			}
		},
	}
}
