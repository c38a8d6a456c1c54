// SPDX-License-Identifier: Apache-2.0

package client

import "sync"

// A Slot is a value in each client, for a package that serves clients. It is safe for concurrent use.
type Slot[T any] struct{ create func(*Client) *T }

// NewSlot returns a slot whose values are made by create on first use. create must not use a slot.
func NewSlot[T any](create func(*Client) *T) *Slot[T] { return &Slot[T]{create} }

// Of returns the client's value.
func (s *Slot[T]) Of(c *Client) *T {
	return c.slots.get(s, func() any { return s.create(c) }).(*T)
}

// A SessionSlot is a value in each session. Its zero value is ready to use, and so is T's.
type SessionSlot[T any] struct{ _ byte } // an address of its own

// Of returns the session's value.
func (s *SessionSlot[T]) Of(in *Session) *T {
	return in.slots.get(s, func() any { return new(T) }).(*T)
}

// slots are the values of a client or a session, by their slots.
type slots struct {
	mu     sync.Mutex // guards values
	values map[any]any
}

func (s *slots) get(slot any, create func() any) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.values[slot]
	if !ok {
		if s.values == nil {
			s.values = make(map[any]any)
		}
		v = create()
		s.values[slot] = v
	}
	return v
}
