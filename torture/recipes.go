// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/history"
	"github.com/lockkeeper/lockkeeper/torture/worker"
)

// groupPath is the group of which each contender with sessions is a member, and schedulesPath the parent of the schedules of which
// it is a replica.
const (
	groupPath     = root + "/members"
	schedulesPath = root + "/schedules"
)

// delayedPath is the path on which contenders with sessions have a lock-delay and a fence function. Callers of the lock service, which
// has neither, do not contend for it.
const delayedPath = root + "/delayed"

// barrierPath is that of the barrier for which contenders with sessions wait, and which the first one sets and removes. doublePath is
// that of the double barrier of whose rounds they are members.
const (
	barrierPath = root + "/barrier"
	doublePath  = root + "/double"
)

// doubleSize returns the size of the double barrier: two or three, and if possible fewer than there are contenders with sessions,
// so that rounds go on while one of them is down.
func (o *Options) doubleSize() int {
	withSessions := o.Contenders
	if o.Replicas > 0 {
		withSessions = (o.Contenders + 1) / 2
	}
	return min(3, withSessions, max(2, withSessions-1))
}

// lockDelay returns the path on which the contenders have a lock-delay, and the delay.
func (o *Options) lockDelay() (path string, delay history.Instant) {
	if !o.Recipes {
		return "", 0
	}
	return delayedPath, history.Instant(worker.LockDelay)
}

// addRecipes completes the task of a contender with sessions by the recipes that it exercises.
func (o *Options) addRecipes(spec *worker.Spec) {
	if !o.Recipes {
		return
	}
	paths := o.containers()
	spec.Several, spec.Permits, spec.ReadWrite = paths, paths[1:2], paths[2:]
	spec.Group, spec.Schedules, spec.Elections, spec.Delayed = groupPath, schedulesPath, paths, delayedPath
	spec.Barrier, spec.SetsBarrier = barrierPath, strings.HasPrefix(spec.Name, "c1.")
	spec.Double, spec.DoubleSize = doublePath, o.doubleSize()
}

// exercise returns the recipes that the contenders of a run exercise, none of which has been exercised yet.
func (o *Options) exercise() map[string]int {
	if !o.Recipes {
		return nil
	}
	recipes := map[string]int{}
	for _, name := range worker.Recipes {
		recipes[name] = 0
	}
	return recipes
}

// leftOfRecipes returns the nodes of members of the group and of the double barrier, of candidates for schedules, and of contenders for
// the path with a lock-delay.
func (o *operator) leftOfRecipes(ctx context.Context) (left []string, err error) {
	var schedules []string
	err = o.do(ctx, func(conn *zk.Conn) error {
		if _, err := conn.Sync("/"); err != nil {
			return err
		}
		left, schedules = nil, nil
		members, err := queue(conn, groupPath)
		if err != nil {
			return err
		}
		for _, id := range members {
			left = append(left, groupPath+"/"+id)
		}
		inRounds, err := membersOfRounds(conn)
		if err != nil {
			return err
		}
		left = append(left, inRounds...)
		names, err := queue(conn, schedulesPath)
		for _, name := range names {
			schedules = append(schedules, schedulesPath+"/"+name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	contenders, err := o.leftNodes(ctx, append(schedules, delayedPath))
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

// has reports whether the contenders had to exercise a recipe. Results of earlier runs do not state it.
func (r *Result) has(recipe string) bool {
	_, has := r.Recipes[recipe]
	return has
}

// countRecipes counts how often each recipe was exercised that the contenders had to exercise: grants, listings of the group, ticks
// that were run, leaders that were shown, former holders that were fenced, barriers that were passed, rounds that members left, and downgrades, values and
// hand-overs that the ensemble committed. A request for several locks counts once.
func (r *Result) countRecipes() {
	if r.Recipes == nil {
		return
	}
	counts, recipes := map[string]int{}, map[int]string{}
	for _, e := range r.History {
		switch e.Kind {
		case history.Asked:
			if e.Together == 0 || e.Together == e.Attempt {
				recipes[e.Attempt] = worker.RecipeOf(e.Text)
			}
		case history.Granted:
			counts[recipes[e.Attempt]]++
		case history.Downgraded:
			counts[worker.Downgrade]++
		case history.Listed:
			counts[worker.Group]++
		case history.Ran:
			counts[worker.Schedule]++
		case history.Proclaimed:
			counts[worker.Publish]++
		case history.HandedOver:
			counts[worker.HandOver]++
		case history.Fenced:
			counts[worker.Takeover]++
		case history.Passed:
			counts[worker.Barrier]++
		case history.Left:
			counts[worker.Double]++
		case history.Observed:
			counts[worker.Observer]++
		default:
		}
	}
	for name := range r.Recipes {
		r.Recipes[name] = counts[name]
	}
}

// unexercised returns a sentence for each recipe that was never exercised.
func (r *Result) unexercised() (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(r.Recipes)) {
		if r.Recipes[name] == 0 {
			texts = append(texts, fmt.Sprintf("recipe %s: never granted or run: nothing is shown about it", name))
		}
	}
	return texts
}
