// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// A grouper is a Library whose worker processes can be members of a group.
type grouper interface {
	// keepMember keeps the process a member of the group, with its own client, until ctx is done, and reports each listing
	// of the members.
	keepMember(ctx context.Context, spec *Spec, report func(history.Event)) error
}

// keepMember joins the group of the run, if it has one, until no further operation may begin.
func (p *process) keepMember(ctx context.Context) {
	library, ok := p.library.(grouper)
	if !ok || p.spec.Group == "" || p.spec.Probe {
		return
	}
	ctx, cancel := p.untilStop(ctx)
	defer cancel()
	if err := library.keepMember(ctx, &p.spec, p.reporter.report); err != nil && !errors.Is(err, context.Canceled) {
		p.reporter.report(history.Event{Kind: history.Note, Text: "member of the group: " + err.Error()})
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

func (lockkeeper) keepMember(ctx context.Context, spec *Spec, report func(history.Event)) error {
	client, err := recipes.Connect(ctx, spec.Servers, &recipes.Options{
		SessionTimeout: time.Duration(spec.Timeout), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	members, err := group.New(client, spec.Group, nil)
	if err != nil {
		return err
	}
	// A process that replaces one that was killed takes its id, and so waits for the end of its session.
	id, _, _ := strings.Cut(spec.Name, ".")
	member, err := members.Join(ctx, id, []byte(spec.Name))
	if err != nil {
		return err
	}
	for change, err := range members.Watch(ctx) {
		if err != nil {
			return errors.Join(err, member.Leave(ctx))
		}
		var ids []string
		for _, m := range change.Members {
			ids = append(ids, m.ID)
		}
		report(history.Event{
			Kind: history.Listed, Path: spec.Group, Zxid: history.ID(change.Revision), Text: strings.Join(ids, " "),
		})
	}
	return nil
}
