// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/attempt"
)

// The operations of recipes that only this library has. A history has them as the text of Asked. acquire is followed by the
// weight, slot and tryslot have a number, downgrade is write, and then a downgrade and as much time as a reader, and nest is a lock that is locked twice.
const (
	read       = "read"
	write      = "write"
	downgrade  = "downgrade"
	acquire    = "acquire"
	tryAcquire = "tryacquire"
	nested     = "nest"
	slot       = "slot"
	trySlot    = "tryslot"
)

// PermitLimit is the limit of the semaphores.
const PermitLimit = 3

// drawRecipe replaces an operation by one of a recipe which the path has.
func (a *workloadClient) drawRecipe(how, path string) string {
	has := func(paths []string) bool { return slices.Contains(paths, path) }
	draw := func(of ...string) string { return of[a.rand.IntN(len(of))] }
	switch {
	case path == a.spec.Slots:
		return a.drawSlot(how)
	case how == "lock" && has(a.spec.Several) && a.rand.IntN(6) == 0:
		return several
	case how == "lock" && has(a.spec.Several) && a.rand.IntN(8) == 0:
		return nested
	case how == "lock" && has(a.spec.ReadWrite):
		return draw(read, read, read, write, downgrade, how)
	case how == "lock" && has(a.spec.Permits):
		return draw(acquire+"1", acquire+"1", acquire+"2", acquire+strconv.Itoa(PermitLimit), how)
	case how == "try" && has(a.spec.Permits):
		return draw(tryAcquire, how)
	}
	return how
}

// drawSeveral returns a path and one or more others, in any order.
func (a *workloadClient) drawSeveral(path string) []string {
	paths := slices.DeleteFunc(slices.Clone(a.spec.Several), func(other string) bool { return other == path })
	a.rand.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	paths = append(paths[:1+a.rand.IntN(len(paths))], path)
	a.rand.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
	return paths
}

// A severalClient is a Client that can acquire several paths, all or none of them.
type severalClient interface {
	// AcquireAll returns a hold for each path. They end together, and Release of any of them releases all.
	AcquireAll(ctx context.Context, paths []string) ([]Hold, error)
}

// acquire acquires one path, or several together.
func (a *workloadClient) acquire(ctx context.Context, how string, paths []string) ([]Hold, error) {
	if how == several {
		return a.client.(severalClient).AcquireAll(ctx, paths) // only that library has Spec.Several
	}
	hold, err := a.client.Acquire(ctx, how, paths[0])
	return []Hold{hold}, err
}

// downgrade makes a writer a reader, and holds as one. If the outcome is unknown, the contender continues as a reader.
func (a *workloadClient) downgrade(p part, d time.Duration) {
	downgrading := p.by
	downgrading.Kind = history.Downgrading
	a.reporter.report(downgrading)
	writer := p.hold.(interface{ Downgrade(context.Context) error }) // that library has
	if err := writer.Downgrade(a.ctx); err != nil && !attempt.MayFailRelease(a.library.Reason(err)) && a.ctx.Err() == nil {
		a.reporter.report(history.Event{Kind: history.Note, Text: fmt.Sprintf("downgrade of %s: %v", p.by.Path, err)})
	}
	a.read(p.hold, d)
}
