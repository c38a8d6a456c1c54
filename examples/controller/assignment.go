// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/group"
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

// missing is the version before the first write, which creates the node: its version is then 0.
const missing int32 = -1

// request returns the ZooKeeper operation that writes a over the given version of the node. As all paths of the recipes, that
// of the operation is below the client's namespace.
func (a assignment) request(version int32) (any, error) {
	data, err := json.Marshal(a)
	if version == missing {
		return &zk.CreateRequest{Path: assignmentPath, Data: data, Acl: zk.WorldACL(zk.PermAll)}, err
	}
	return &zk.SetDataRequest{Path: assignmentPath, Data: data, Version: version}, err
}

// read returns the assignment and the version of its node.
func (c *controller) read(ctx context.Context) (assignment, int32, error) {
	var a assignment
	data, stat, err := c.assignment.Read(ctx)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return a, missing, nil
	case err == nil:
		err = json.Unmarshal(data, &a)
	}
	if err != nil {
		return a, 0, fmt.Errorf("read %s: %w", c.assignment.Path(), err)
	}
	return a, stat.Version, nil
}
