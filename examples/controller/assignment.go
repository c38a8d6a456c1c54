// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/group"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	partitions     = 6
	assignmentPath = "/assignment"
)

// An assignment is the node that controllers write and all brokers read.
type assignment struct {
	Epoch      int64            // of the controller that wrote it
	Generation int64            // incremented by each write
	Partitions map[string][]int // by broker
}

// distribute assigns the partitions to the brokers in turn.
func distribute(brokers []group.Member, epoch, generation int64) assignment {
	a := assignment{Epoch: epoch, Generation: generation, Partitions: map[string][]int{}}
	for p := 0; p < partitions && len(brokers) > 0; p++ {
		broker := brokers[p%len(brokers)].ID
		a.Partitions[broker] = append(a.Partitions[broker], p)
	}
	return a
}

// request returns the ZooKeeper operation that writes a over the given version of the node.
func (a assignment) request(version int32) (*zk.SetDataRequest, error) {
	data, err := json.Marshal(a)
	return &zk.SetDataRequest{Path: assignmentPath, Data: data, Version: version}, err
}

// create creates the node, unless another broker has done so.
func create(client *recipes.Client) error {
	_, err := client.Conn().Create(assignmentPath, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		return fmt.Errorf("create %s: %w", assignmentPath, err)
	}
	return nil
}

// read returns the assignment and the version of its node.
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
