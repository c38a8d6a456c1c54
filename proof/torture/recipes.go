// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/proof/history"
	"github.com/lockkeeper/lockkeeper/proof/torture/worker"
)

// Paths of recipes.
const (
	groupPath     = root + worker.GroupNode
	schedulesPath = root + worker.SchedulesNode
	delayedPath   = root + worker.DelayedNode
	doublePath    = root + worker.DoubleNode
	slotsPath     = root + worker.SlotsNode

	assignmentPath = root + worker.AssignmentNode
)

// lockDelay returns the path on which the contenders have a lock-delay, and the delay.
func (o *Options) lockDelay() (path string, delay history.Instant) {
	if !o.Recipes {
		return "", 0
	}
	return delayedPath, history.Instant(worker.LockDelay)
}

// slots returns the parents of the nodes of slots: of their contenders, and of their numbers.
func (o *Options) slots() []string {
	if !o.Recipes {
		return nil
	}
	return []string{slotsPath, slotsPath + "-limit"}
}

// addRecipes completes the task of a contender with sessions by the recipes that it exercises.
func (o *Options) addRecipes(spec *worker.Spec) {
	withSessions := o.Contenders
	if o.Replicas > 0 {
		withSessions = (o.Contenders + 1) / 2
	}
	if o.Recipes {
		spec.Exercise(root, o.containers(), withSessions)
	}
}

// leftOfRecipes returns the nodes of members of the group, of the assignment and of the double barrier, of candidates for schedules, of
// contenders for partitions, for the path with a lock-delay and for slots, and of the slots' numbers.
func (o *operator) leftOfRecipes(ctx context.Context) (left []string, err error) {
	var queues []string
	err = o.do(ctx, func(conn *zk.Conn) error {
		if _, err := conn.Sync("/"); err != nil {
			return err
		}
		left = nil
		for _, parent := range []string{groupPath, assignmentPath + "/members"} {
			members, err := queue(conn, parent)
			if err != nil {
				return err
			}
			for _, id := range members {
				left = append(left, parent+"/"+id)
			}
		}
		inRounds, err := membersOfRounds(conn)
		if err != nil {
			return err
		}
		left = append(left, inRounds...)
		numbers, err := queue(conn, slotsPath+"-limit")
		if err != nil {
			return err
		}
		for _, number := range numbers {
			left = append(left, slotsPath+"-limit/"+number)
		}
		queues = []string{assignmentPath + "/leader"}
		for _, parent := range []string{schedulesPath, assignmentPath + "/owned"} {
			names, err := queue(conn, parent)
			if err != nil {
				return err
			}
			for _, name := range names {
				queues = append(queues, parent+"/"+name)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	contenders, err := o.leftNodes(ctx, append(queues, delayedPath, slotsPath))
	return append(left, contenders...), err
}

// membersOfRounds returns the nodes of members of the double barrier.
func membersOfRounds(conn *zk.Conn) (nodes []string, err error) {
	rounds, err := queue(conn, doublePath)
	for _, round := range rounds {
		members, failed := queue(conn, doublePath+"/"+round)
		err = errors.Join(err, failed)
		for _, id := range members {
			nodes = append(nodes, doublePath+"/"+round+"/"+id)
		}
	}
	return nodes, err
}
