// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// A state is the node of a partition, which its leaders write.
type state struct {
	LeaderEpoch int32 // of the leader that wrote it
	Generation  int64 // incremented by each write
}

// path returns the path of the node of a partition.
func path(partition string) string { return "/partitions/" + partition }

// request returns the ZooKeeper operation that writes s over the given version of the node. As all paths of the recipes, that
// of the operation is below the client's namespace.
func (s state) request(path string, version int32) (any, error) {
	data, err := json.Marshal(s)
	return &zk.SetDataRequest{Path: path, Data: data, Version: version}, err
}

// read returns the state of a partition and the version of its node.
func read(ctx context.Context, node *recipes.Node) (s state, version int32, err error) {
	data, stat, err := node.Read(ctx)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, 0, fmt.Errorf("read %s: %w", node.Path(), err)
	}
	return s, stat.Version, nil
}
