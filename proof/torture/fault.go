// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Fault is injected into the servers, the contenders or the links between them, and healed later.
type Fault struct {
	At   time.Duration // since the beginning of the run
	For  time.Duration // until it is healed
	Kind string
	Args []string
}

// String returns the fault as a line of a plan.
func (f Fault) String() string {
	return strings.TrimSpace(fmt.Sprintf("at %v for %v %s %s", f.At, f.For, f.Kind, strings.Join(f.Args, " ")))
}

// A heal function ends a fault. An error that matches errMissed reports that the fault had no effect.
type heal func(context.Context) error

// errMissed reports that a fault had no effect.
var errMissed = errors.New("no effect")

// nothingToHeal is the heal function of a fault that has no end.
func nothingToHeal(context.Context) error { return nil }

// faultBound is the longest time that the injection of a fault may take, and its healing.
const faultBound = 30 * time.Second
