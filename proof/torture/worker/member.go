// SPDX-License-Identifier: Apache-2.0

//go:build unix

package worker

import (
	"context"
	"errors"
	"strings"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func init() {
	tasks = append(tasks, task{"member of the group", func(s *Spec) bool { return s.Group != "" }, keepMember})
}

// keepMember keeps the process a member of the group, and reports each listing of the members.
func keepMember(ctx context.Context, client *recipes.Client, spec *Spec, report func(history.Event)) error {
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
	for change, err := range members.Observe(ctx) {
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
