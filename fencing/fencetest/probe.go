// SPDX-License-Identifier: Apache-2.0

package fencetest

import (
	"context"
	"errors"
	"testing"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A probe is a subject with expectations. Its methods end the test if the subject does not meet them.
type probe struct {
	Guarded

	t       *testing.T
	subject Subject
}

// open returns the guard as one more process sees it.
func (p *probe) open() Guarded {
	p.t.Helper()
	g := p.subject.Open(p.t)
	if g == nil {
		p.t.Fatal("Open returned nil")
	}
	return g
}

// another returns the guard as a second process sees it, or the first process's if the state ends with its process.
func (p *probe) another() Guarded {
	p.t.Helper()
	if p.subject.Volatile {
		return p.Guarded
	}
	return p.open()
}

// restart continues as a process that starts now.
func (p *probe) restart() {
	p.t.Helper()
	p.Guarded = p.open()
}

func (p *probe) admits(resource string, token fencing.Token, value string) {
	p.t.Helper()
	if err := p.Write(p.t.Context(), resource, token, value); err != nil {
		p.t.Fatalf("write %q with token %d: %v, want it admitted", resource, token, err)
	}
	p.holds(resource, value)
}

// refuses expects that token is refused as stale, and that the value does not change.
func (p *probe) refuses(resource string, token, newest fencing.Token) {
	p.t.Helper()
	before := p.value(resource)
	err := p.Write(p.t.Context(), resource, token, "stale")
	p.stale(err, token, newest)
	p.holds(resource, before)
}

func (p *probe) stale(err error, token, newest fencing.Token) {
	p.t.Helper()
	var stale *fencing.StaleError
	if !errors.As(err, &stale) {
		p.t.Fatalf("write with token %d after %d: error %v, want a *fencing.StaleError", token, newest, err)
	}
	if want := (fencing.StaleError{Token: token, Newest: newest}); *stale != want {
		p.t.Fatalf("write with token %d after %d: %+v, want %+v", token, newest, *stale, want)
	}
	if errors.Is(err, fencing.ErrInvalid) {
		p.t.Fatalf("write with token %d after %d: %v is stale and also invalid", token, newest, err)
	}
}

// rejects expects an error about the value, although token is admissible: the error is neither stale nor invalid, and the
// value does not change.
func (p *probe) rejects(resource string, token fencing.Token, value string) {
	p.t.Helper()
	before := p.value(resource)
	err := p.Write(p.t.Context(), resource, token, value)
	if err == nil || errors.Is(err, fencing.ErrStale) || errors.Is(err, fencing.ErrInvalid) {
		p.t.Fatalf("write a value of %d bytes to %q with token %d: error %v, want one about the value, which is outside "+
			"the limits that the Subject declares", len(value), resource, token, err)
	}
	p.holds(resource, before)
}

// fails expects an error that wraps want from a write of the ledger, and that the value does not change.
func (p *probe) fails(ctx context.Context, token fencing.Token, want error) {
	p.t.Helper()
	const resource = "ledger"
	before := p.value(resource)
	err := p.Write(ctx, resource, token, "unwanted")
	if !errors.Is(err, want) || errors.Is(err, fencing.ErrStale) {
		p.t.Fatalf("write %q with token %d: error %v, want one that wraps %q", resource, token, err, want)
	}
	p.holds(resource, before)
}

func (p *probe) resets(resource string) {
	p.t.Helper()
	if err := p.Reset(p.t.Context(), resource); err != nil {
		p.t.Fatalf("reset %q: %v", resource, err)
	}
}

func (p *probe) holds(resource, want string) {
	p.t.Helper()
	if got := p.value(resource); got != want {
		p.t.Fatalf("value of %q is %q, want %q", resource, got, want)
	}
}

func (p *probe) value(resource string) string {
	p.t.Helper()
	value, err := p.Value(p.t.Context(), resource)
	if err != nil {
		p.t.Fatalf("value of %q: %v", resource, err)
	}
	return value
}
