// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/epoch"
	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// Beside the path of an election.
const (
	epochSuffix = "-epoch"
	stateSuffix = "-state"
	copySuffix  = "-copy"
)

// A reign is the term of a contender process and its epoch.
type reign struct {
	client *recipes.Client
	path   string
	term   *election.Term
	epoch  *epoch.Epoch
}

// newReign claims an epoch, and reports which.
func newReign(ctx context.Context, client *recipes.Client, path string, term *election.Term) (reign, error) {
	epochs, err := epoch.New(client, path+epochSuffix, &epoch.Options{Owner: "process"})
	if err != nil {
		return reign{}, err
	}
	claimed, err := epochs.Claim(ctx, term.Claim)
	if err != nil {
		return reign{}, err
	}
	contender.Report("epoch %d", claimed.Number())
	return reign{client, path, term, claimed}, nil
}

// writes are the operations of a reign: all or none.
func writes(path, data string) []any {
	return []any{
		&zk.SetDataRequest{Path: path + stateSuffix, Data: []byte(data), Version: -1},
		&zk.SetDataRequest{Path: path + copySuffix, Data: []byte(data), Version: -1},
	}
}

// commit writes, and reports the result. If it fails, commit then sends what a process sends that was stopped between the check
// of its claim and its write: with the one check and with the other.
func (r reign) commit(ctx context.Context) {
	_, err := r.epoch.Commit(ctx, writes(r.path, "process")...)
	contender.Report("committed %v", err)
	if err == nil {
		return
	}
	for _, check := range []*zk.CheckVersionRequest{
		{Path: r.term.Path(), Version: 0},
		{Path: r.path + epochSuffix, Version: int32(r.epoch.Number() - 1)}, //nolint:gosec // it is small
	} {
		_, err := r.client.Conn().Multi(append([]any{check}, writes(r.path, "process, late")...)...)
		contender.Report("sent %v", err)
	}
}
