// SPDX-License-Identifier: Apache-2.0

// Controller assigns partitions to brokers, as Kafka's controller does: the brokers elect one of them, its term has an
// epoch, and every assignment that it writes carries a check on that. See what happens when it is frozen:
//
//	go run ./controller -freeze
//
// control, below, is what such a controller looks like. All else puts it on a stage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/examples/internal/demo"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	partitions     = 6
	assignmentPath = "/assignment"
)

func main() {
	demo.Main("Brokers elect a controller, which assigns partitions in ZooKeeper; what it writes is checked against its epoch.", play)
}

func play(ctx context.Context, p *demo.Player) error {
	client, err := recipes.Connect(ctx, p.Servers, &recipes.Options{SessionTimeout: demo.Timeout})
	if err != nil {
		return err
	}
	defer client.Close()
	brokers, err := election.New(client, "/election/controller", &election.Options{ID: p.Name})
	if err != nil {
		return err
	}
	epochs, err := epoch.New(client, "/controller-epoch", &epoch.Options{ID: p.Name})
	if err != nil {
		return err
	}
	_, err = client.Conn().Create(assignmentPath, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("create %s: %w", assignmentPath, err)
	}
	c := &controller{brokers: brokers, epochs: epochs, client: client, player: p}
	return brokers.Run(ctx, c.control)
}

// A controller is a broker, which assigns the partitions while it leads.
type controller struct {
	brokers *election.Election // who is a candidate is alive, and gets partitions
	epochs  *epoch.Epochs
	client  *recipes.Client
	player  *demo.Player
}

// An assignment is what the controllers write, and all brokers read.
type assignment struct {
	Epoch      int64            // of the controller that wrote it
	Generation int64            // one more with each write
	Partitions map[string][]int // by broker
}

// control is one term. It ends with ctx: when the term is lost, or the process ends.
func (c *controller) control(ctx context.Context, term *election.Term) error {
	mine, err := c.epochs.Claim(ctx, term.Claim)
	if err != nil {
		return err
	}
	// Read after the claim: until then the controller before could still write.
	last, version, err := c.read()
	if err != nil {
		return err
	}
	c.player.Leads("leads in epoch %d, after generation %d of epoch %d", mine.Number(), last.Generation, last.Epoch)
	for {
		next, err := c.plan(ctx, mine.Number(), last)
		if err != nil {
			return err
		}
		data, err := json.Marshal(next)
		if err != nil {
			return err
		}
		// What ctx says is of the past: the process may have stood still since. The ensemble has the last word. And a
		// write that has begun is not given up because the term ends meanwhile.
		write := &zk.SetDataRequest{Path: assignmentPath, Data: data, Version: version}
		_, err = mine.Commit(context.WithoutCancel(ctx), write)
		var stale *epoch.StaleError
		switch {
		case errors.As(err, &stale):
			c.player.Refused("writes generation %d in epoch %d: refused, it is epoch %d of %s; %s",
				next.Generation, stale.Epoch, stale.Newest.Number, stale.Newest.ID, c.standing())
			return err // Run takes it for the loss of the term, if it was lost
		case err != nil:
			return err
		}
		c.player.Wrote("writes generation %d in epoch %d: admitted, %v", next.Generation, mine.Number(), next.Partitions)
		last, version = next, version+1
	}
}

// plan deals the partitions to the brokers that are there. It takes its time, as plans for many partitions do; that it
// was told to stop is seen at its beginning only.
func (c *controller) plan(ctx context.Context, epoch int64, last assignment) (assignment, error) {
	if err := ctx.Err(); err != nil {
		c.player.Say("stops: %v", context.Cause(ctx))
		return assignment{}, err
	}
	alive, err := c.brokers.Candidates(ctx)
	if err != nil {
		return assignment{}, err
	}
	brokers := map[string]bool{c.player.Name: true} // who stands in line no more, if its term is lost meanwhile
	for _, b := range alive {
		brokers[b.ID] = true
	}
	names := slices.Sorted(maps.Keys(brokers))
	next := assignment{Epoch: epoch, Generation: last.Generation + 1, Partitions: map[string][]int{}}
	for p := range partitions {
		broker := names[p%len(names)]
		next.Partitions[broker] = append(next.Partitions[broker], p)
	}
	c.player.Begins("plans generation %d", next.Generation)
	time.Sleep(400 * time.Millisecond)
	return next, nil
}

// read returns the assignment, and the version of its node.
func (c *controller) read() (assignment, int32, error) {
	var a assignment
	data, stat, err := c.client.Conn().Get(assignmentPath)
	if err == nil && len(data) > 0 {
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return a, 0, fmt.Errorf("read %s: %w", assignmentPath, err)
	}
	return a, stat.Version, nil
}

// standing is what stands after a refusal.
func (c *controller) standing() string {
	a, _, err := c.read()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("generation %d of epoch %d stands", a.Generation, a.Epoch)
}
