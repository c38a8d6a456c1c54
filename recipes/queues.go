// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/client"
)

// A QueueState describes what a client has in one queue at one moment. Contenders of other
// clients do not count.
type QueueState struct {
	Path     string    // of the queue, namespace included
	Joining  int       // nodes whose create was not answered yet
	Waiting  int       // nodes of waiters
	Held     int       // nodes of claims
	Deleting int       // nodes that are still to be deleted
	Oldest   time.Time // when the claim that is held longest was granted; zero if none is held
}

// Queues returns the state of each queue in which this client may have a node in its
// session, in the order of their paths. The nodes are those that OutstandingNodes counts.
// It does no I/O.
func (c *Client) Queues() []QueueState {
	var states []QueueState
	for path, u := range client.Of(c).Newest().Nodes.Usage() {
		states = append(states, QueueState{
			Path: path, Joining: u.Joining, Waiting: u.Waiting, Held: u.Granted, Deleting: u.Leaving, Oldest: u.Oldest,
		})
	}
	slices.SortFunc(states, func(a, b QueueState) int { return strings.Compare(a.Path, b.Path) })
	return states
}
