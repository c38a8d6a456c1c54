// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Beside the path of an election.
const (
	epochSuffix = "-epoch"
	stateSuffix = "-state"
	copySuffix  = "-copy"
)

// A reign is a player's term and its epoch.
type reign struct {
	client *recipes.Client
	path   string
	term   *election.Term
	epoch  *epoch.Epoch
}

// lead campaigns and claims an epoch, and says which.
func (c *contender) lead(ctx context.Context, client *recipes.Client) error {
	e, err := election.New(client, c.path, nil)
	if err != nil {
		return err
	}
	epochs, err := epoch.New(client, c.path+epochSuffix, &epoch.Options{ID: "player"})
	if err != nil {
		return err
	}
	term, err := e.Campaign(ctx)
	if err != nil {
		return err
	}
	claimed, err := epochs.Claim(ctx, term.Claim)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.reign = &reign{client, c.path, term, claimed}
	c.mu.Unlock()
	c.report("epoch %d", claimed.Number())
	<-term.Done()
	c.report("notified: %v", term.Err())
	select {}
}

// writes are the operations of a reign: all or none.
func writes(path, data string) []any {
	return []any{
		&zk.SetDataRequest{Path: path + stateSuffix, Data: []byte(data), Version: -1},
		&zk.SetDataRequest{Path: path + copySuffix, Data: []byte(data), Version: -1},
	}
}

// commit writes, and says what came of it. It then sends what a process would send that was stopped when it had looked at
// its claim and not yet written: with the one check and with the other.
func (r *reign) commit(report func(format string, args ...any)) {
	ctx := context.Background()
	_, err := r.epoch.Commit(ctx, writes(r.path, "player")...)
	report("committed: %v", err)
	if err == nil {
		return
	}
	for _, check := range []*zk.CheckVersionRequest{
		{Path: r.term.Path(), Version: 0},
		{Path: r.path + epochSuffix, Version: int32(r.epoch.Number() - 1)}, //nolint:gosec // it is small
	} {
		_, err := r.client.Conn().Multi(append([]any{check}, writes(r.path, "player, late")...)...)
		report("sent: %v", err)
	}
}
