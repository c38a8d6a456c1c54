// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/lease"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
)

const (
	probeInterval = 2 * time.Second
	probeTimeout  = 5 * time.Second
)

// A probe knows whether a quorum answered recently. A session that holds nothing sends no heartbeats, and a server that
// has lost its quorum still answers reads: so the probe sends a check of a node that does not exist, which only a quorum
// can refuse.
type probe struct {
	queue *queue.Queue

	mu  sync.Mutex
	err error // guarded by mu: of the last check
}

// newProbe returns a probe that checks below path, where no node ever is.
func newProbe(client *recipes.Client, path string) (*probe, error) {
	queue, err := queue.New(client, path, nil)
	if err != nil {
		return nil, err
	}
	return &probe{queue: queue}, nil // a quorum has just opened the client's session
}

// run checks at each interval, until ctx is done.
func (p *probe) run(ctx context.Context) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := p.check(ctx)
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (p *probe) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	requests, err := lease.NewRequests(ctx, p.queue)
	if err == nil {
		err = requests.Check(ctx, "missing")
	}
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err == nil {
		err = errors.New("the node exists")
	}
	return fmt.Errorf("check that a quorum answers: %w", err)
}

// ready returns why the last check failed, nil if it did not.
func (p *probe) ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
