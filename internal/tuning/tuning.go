// SPDX-License-Identifier: Apache-2.0

// Package tuning sets what users cannot set, for tests that show that no promise depends on its usual value.
package tuning

import (
	"context"
	"time"
)

// A Tuning replaces values that package recipes chooses by itself. The zero value of a field leaves the choice to it.
type Tuning struct {
	Heartbeat time.Duration // from one heartbeat of a session to the next; T/6 otherwise
}

type key struct{}

// With returns a copy of ctx that tunes the client which is connected with it, and no other.
func With(ctx context.Context, t Tuning) context.Context { return context.WithValue(ctx, key{}, t) }

// Of returns the Tuning that ctx carries, zero if it carries none.
func Of(ctx context.Context) Tuning {
	t, _ := ctx.Value(key{}).(Tuning)
	return t
}
