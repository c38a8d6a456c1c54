// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func init() {
	tasks = append(tasks, task{"member of the assignment", func(s *Spec) bool { return s.Assignment != "" }, ownPartitions})
}

// partitions are the partitions of the assignment: more than there are members, as a rule, so that each member has one.
var partitions = []string{"0", "1", "2", "3", "4", "5", "6", "7"}

// ownPartitions makes the process a member of the assignment, and reports when the work of its partitions begins and returns. It leaves again and
// again, so that partitions move without faults, too.
func ownPartitions(ctx context.Context, client *recipes.Client, spec *Spec, report func(history.Event)) error {
	timeout := time.Duration(spec.Timeout)
	// A process that replaces one that was killed takes its ID, and gets its partitions back.
	id, _, _ := strings.Cut(spec.Name, ".")
	a, err := assign.New(client, spec.Assignment, &assign.Options{
		ID: id, Partitions: partitions, RebalanceWait: timeout / 8, RejoinWait: timeout / 2, RetryBackoff: timeout / 8,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		running, cancel := context.WithTimeout(ctx, 8*timeout)
		err := a.Run(running, func(ctx context.Context, o *assign.Ownership) error {
			working := history.Event{Kind: history.Working, Path: path.Dir(o.Path()), Token: history.ID(o.Token())}
			report(working)
			<-ctx.Done()
			// A partition that moves is released when its work has returned, which takes a while. A claim that is lost leaves no time.
			for returns := time.Now().Add(timeout / 8); o.Err() == nil && time.Now().Before(returns); {
				time.Sleep(5 * time.Millisecond)
			}
			worked := working
			worked.Kind = history.Worked
			if err := o.Err(); err != nil {
				worked.Cause = causeOf(err)
			}
			report(worked)
			return nil
		})
		cancel()
		if err != nil && !errors.Is(err, recipes.ErrUncertain) {
			return err
		}
	}
	return nil
}
