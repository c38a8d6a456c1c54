// SPDX-License-Identifier: Apache-2.0

package election

import (
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// DefaultCoolDown is how long Run waits after a term of those who say nothing
// else.
const DefaultCoolDown = time.Second

// Options are the options of an Election. The zero value of a field means its
// default.
type Options struct {
	// ID is the name by which others see this candidate: at most 4096 bytes. The
	// default is host and process id. Nothing depends on its being unique, except
	// people.
	ID string

	// ResignTimeout bounds Resign, and what a Campaign that failed still does to
	// take its node away. The default is the session timeout.
	ResignTimeout time.Duration

	// StopTimeout bounds how long Run waits for its work to return after the work's
	// context was cancelled; then Run returns ErrOverrun. The default is to wait for
	// as long as it takes.
	StopTimeout time.Duration

	// CoolDown is how long Run waits after a term before it campaigns again, so
	// that others have their turn. The default is DefaultCoolDown; for next to none,
	// say a nanosecond.
	CoolDown time.Duration

	_ struct{}
}

func (o *Options) check() error {
	if err := recipes.CheckOwner(o.ID); err != nil {
		return err
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"resign timeout", o.ResignTimeout}, {"stop timeout", o.StopTimeout}, {"cool-down", o.CoolDown}} {
		if d.value < 0 {
			return fmt.Errorf("%s %v is negative", d.name, d.value)
		}
	}
	return nil
}
