// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"sync"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A task is what a process of this library does beside the operations of its clients.
type task struct {
	name  string
	hasIt func(*Spec) bool

	// run runs until ctx is done, with a client of its own, and reports what it does.
	run func(ctx context.Context, client *recipes.Client, spec *Spec, report func(history.Event)) error
}

// tasks contains all tasks. Each file of a recipe adds its own.
var tasks []task

// runTask runs a task, if the run has it, until no further operation may begin. Its client stays connected.
func (p *process) runTask(ctx context.Context, t task) {
	if _, own := p.library.(lockkeeper); !own || !t.hasIt(&p.spec) || p.spec.Probe {
		return
	}
	ctx, cancel := p.untilStop(ctx)
	defer cancel()
	client, err := connect(ctx, &p.spec)
	if err == nil {
		defer p.keep(client.OutstandingNodes, func() { client.Close() })
		err = t.run(ctx, client, &p.spec, p.reporter.report)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		p.reporter.report(history.Event{Kind: history.Note, Text: t.name + ": " + err.Error()})
	}
}

// untilStop returns a copy of ctx that is also done when no further operation may begin. The function waits for its goroutine.
func (p *process) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	var stopping sync.WaitGroup
	stopping.Go(func() {
		select {
		case <-p.stop:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		stopping.Wait()
	}
}
