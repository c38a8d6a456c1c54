// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// LockDelay is the same for all contenders on Spec.Delayed.
const LockDelay = 500 * time.Millisecond

// drawPath draws the path of an operation.
func (a *workloadClient) drawPath() string {
	paths := slices.Clone(a.spec.Paths)
	for _, own := range []string{a.spec.Delayed, a.spec.Slots} {
		if own != "" {
			paths = append(paths, own)
		}
	}
	return paths[a.rand.IntN(len(paths))]
}

// leave closes the client while it holds: the holder does not release, as one that crashes.
func (a *workloadClient) leave(p part) {
	a.close()
	<-p.notified
}

// A fencer is a Client that has a lock-delay and a fence function on one path.
type fencer interface {
	// fenceWith gives the client the path, empty for none, and where its fence function reports.
	fenceWith(path string, report func(history.Event))
}

// A takeover is a client's part in passing holders that did not release. Only one path has a lock-delay, and all that contend
// for it.
type takeover struct {
	path   string
	report func(history.Event)
}

func (t *takeover) fenceWith(path string, report func(history.Event)) {
	t.path, t.report = path, report
}

// lockDelay returns the lock-delay on a path.
func (t *takeover) lockDelay(path string) time.Duration {
	if path == t.path {
		return LockDelay
	}
	return 0
}

// fenceOf returns the fence function for a path, which records the former holder, nil if the path has none.
func (t *takeover) fenceOf(path string) func(context.Context, recipes.FormerHolder) error {
	if path != t.path {
		return nil
	}
	return func(_ context.Context, former recipes.FormerHolder) error {
		t.report(history.Event{Kind: history.Fenced, Path: path, Token: history.ID(former.Token)})
		return nil
	}
}
