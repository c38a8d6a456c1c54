// SPDX-License-Identifier: Apache-2.0

// Controller divides partitions among brokers, as Kafka's controller does. Brokers join, one of them is elected and assigns the
// partitions, and each move of a partition gives it a new leader epoch. This command freezes a broker and shows that its stale write
// to a partition is rejected:
//
//	go run ./controller -freeze
//
// controller.go is the whole broker; a program calls run from its main function. partition.go has the nodes that it
// writes. main.go and package demo are not part of the example: they start several brokers and freeze one.
package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/lockkeeper/lockkeeper/assign"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// run is a broker until ctx is done. It leads the partitions that it is assigned.
func run(ctx context.Context, name string, servers []string, timeout time.Duration) error {
	client, err := recipes.Connect(ctx, servers, &recipes.Options{SessionTimeout: timeout, Owner: name})
	if err != nil {
		return err
	}
	defer client.Close()
	partitions, err := assign.New(client, "/topic", &assign.Options{
		ID: name, Partitions: []string{"topic-0", "topic-1", "topic-2", "topic-3", "topic-4", "topic-5"},
		RebalanceWait: timeout / 8, RejoinWait: timeout / 8, // a demo does not wait for brokers that restart
		RetryBackoff: timeout / 8,
	})
	if err != nil {
		return err
	}
	b := &broker{client}
	return partitions.Run(ctx, b.lead)
}

// A broker leads partitions.
type broker struct{ client *recipes.Client }

// lead is the work of one partition. ctx is done when the partition moves, its claim is lost, or the process ends.
func (b *broker) lead(ctx context.Context, o *assign.Ownership) error {
	epochs, err := epoch.New(b.client, "/epochs/"+o.Partition(), nil)
	if err != nil {
		return err
	}
	mine, err := epochs.Claim(ctx, o.Claim)
	if err != nil {
		return err
	}
	node, err := recipes.NewNode(b.client, path(o.Partition()))
	if err != nil {
		return err
	}
	if err := node.Create(ctx, []byte(`{}`)); err != nil { // unless it exists
		return err
	}
	// Read after the claim: before it, the previous leader could still write.
	last, version, err := read(ctx, node)
	if err != nil {
		return err
	}
	leaderEpoch := int32(mine.Number()) // as Kafka's: it is dense, where a token would overflow it
	slog.Info("leading", "partition", o.Partition(), "epoch", leaderEpoch, "generation", last.Generation, "written_in", last.LeaderEpoch)
	for ctx.Err() == nil {
		next := state{LeaderEpoch: leaderEpoch, Generation: last.Generation + 1}
		slog.Info("started", "partition", o.Partition(), "generation", next.Generation)
		time.Sleep(400 * time.Millisecond) // like much real work, it does not check ctx until it has finished
		if err := b.write(ctx, o.Partition(), mine, next, version); err != nil {
			return err
		}
		last, version = next, version+1
	}
	return nil
}

// write writes the state of a partition, unless a newer leader has claimed an epoch. The process may have been paused since it
// last checked ctx, so only the check in ZooKeeper's transaction decides. The end of the ownership does not cancel a write that
// has begun: ZooKeeper decides about that write, too.
func (b *broker) write(ctx context.Context, partition string, mine *epoch.Epoch, next state, version int32) error {
	request, err := next.request(path(partition), version)
	if err != nil {
		return err
	}
	_, err = mine.Commit(context.WithoutCancel(ctx), request)
	var stale *epoch.StaleError
	switch {
	case errors.As(err, &stale):
		slog.Warn("stale write rejected", "partition", partition, "generation", next.Generation, "epoch", stale.Epoch,
			"newest", stale.Newest.Number, "broker", stale.Newest.Owner)
		return err
	case err != nil:
		return err
	}
	slog.Info("written", "partition", partition, "generation", next.Generation, "epoch", next.LeaderEpoch)
	return nil
}
