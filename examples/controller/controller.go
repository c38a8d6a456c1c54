// SPDX-License-Identifier: Apache-2.0

// Controller assigns partitions to brokers, as Kafka's controller does. The brokers join a group, and elect one of them as the
// controller. Its term gets an epoch, and each assignment is written in one transaction with a check of that epoch. This
// command freezes the controller and shows that its stale write is rejected:
//
//	go run ./controller -freeze
//
// controller.go is the whole controller; a program calls run from its main function. assignment.go has the node that it
// writes. main.go and package demo are not part of the example: they start several brokers and freeze the controller.
package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// run campaigns under a name until ctx is done, and assigns partitions during each term.
func run(ctx context.Context, name string, servers []string, timeout time.Duration) error {
	client, err := recipes.Connect(ctx, servers, &recipes.Options{SessionTimeout: timeout, Owner: name})
	if err != nil {
		return err
	}
	defer client.Close()
	brokers, err := group.New(client, "/brokers", nil)
	if err != nil {
		return err
	}
	if _, err := brokers.Join(ctx, name, nil); err != nil { // until the client is closed
		return err
	}
	controllers, err := election.New(client, "/election/controller", nil)
	if err != nil {
		return err
	}
	epochs, err := epoch.New(client, "/controller-epoch", nil)
	if err != nil {
		return err
	}
	node, err := recipes.NewNode(client, assignmentPath)
	if err != nil {
		return err
	}
	c := &controller{brokers: brokers, epochs: epochs, assignment: node}
	return controllers.Run(ctx, c.control)
}

// A controller is a broker that assigns the partitions while it leads.
type controller struct {
	brokers    *group.Group // the running brokers
	epochs     *epoch.Epochs
	assignment *recipes.Node
}

// control is one term. ctx is done when the term is lost or the process ends.
func (c *controller) control(ctx context.Context, term *election.Term) error {
	mine, err := c.epochs.Claim(ctx, term.Claim)
	if err != nil {
		return err
	}
	// Read after the claim: before it, the previous controller could still write.
	last, version, err := c.read(ctx)
	if err != nil {
		return err
	}
	slog.Info("leading", "epoch", mine.Number(), "generation", last.Generation, "written_in", last.Epoch)
	for ctx.Err() == nil {
		next, err := c.plan(ctx, mine.Number(), last)
		if err != nil {
			return err
		}
		if err := c.write(ctx, mine, next, version); err != nil {
			return err // if the term was lost, Run campaigns again
		}
		last, version = next, version+1
	}
	return context.Cause(ctx)
}

// plan distributes the partitions over the running brokers. Like much real work, it does not check ctx until it has
// finished.
func (c *controller) plan(ctx context.Context, epoch int64, last assignment) (assignment, error) {
	brokers, err := c.brokers.Members(ctx)
	if err != nil {
		return assignment{}, err
	}
	slog.Info("started", "generation", last.Generation+1)
	time.Sleep(400 * time.Millisecond)
	return distribute(brokers.Members, epoch, last.Generation+1), nil
}

// write writes an assignment, unless a newer controller has claimed an epoch. The process may have been paused since it
// last checked ctx, so only the check in ZooKeeper's transaction decides. The end of the term does not cancel a write that
// has begun: ZooKeeper decides about that write, too.
func (c *controller) write(ctx context.Context, mine *epoch.Epoch, next assignment, version int32) error {
	request, err := next.request(version)
	if err != nil {
		return err
	}
	_, err = mine.Commit(context.WithoutCancel(ctx), request)
	var stale *epoch.StaleError
	switch {
	case errors.As(err, &stale):
		current, _, _ := c.read(context.WithoutCancel(ctx)) // for the log
		slog.Warn("stale write rejected", "generation", next.Generation, "epoch", stale.Epoch, "newest", stale.Newest.Number,
			"controller", stale.Newest.Owner, "written_in", current.Epoch)
		return err
	case err != nil:
		return err
	}
	slog.Info("written", "generation", next.Generation, "epoch", mine.Number(), "partitions", next.Partitions)
	return nil
}
