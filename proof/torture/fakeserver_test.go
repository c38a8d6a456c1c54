// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/torture/clock"
	"github.com/lockkeeper/lockkeeper/proof/torture/verdict"
)

// A fakeServer is a server on which no operation has an effect; it records the operations.
type fakeServer struct {
	mu    sync.Mutex // guards what follows
	did   []string
	fails map[string]error // by operation
	dead  bool             // it does not serve
}

func (d *fakeServer) do(what string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.did = append(d.did, what)
	return d.fails[what]
}

func (d *fakeServer) done() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.did)
}

func (*fakeServer) Addr() string { return "" }

func (d *fakeServer) Kill(context.Context) error { return d.do("kill") }

func (d *fakeServer) Start(context.Context) error { return d.do("start") }

func (d *fakeServer) Pause(context.Context) error { return d.do("pause") }

func (d *fakeServer) Unpause(context.Context) error { return d.do("unpause") }

func (d *fakeServer) Partition(context.Context) error { return d.do("partition") }

func (d *fakeServer) Isolate(context.Context) error { return d.do("isolate") }

func (d *fakeServer) Running(context.Context) error { return d.do("run") }

func (d *fakeServer) Heal(context.Context) error { return d.do("heal") }

func (*fakeServer) Log(context.Context) string { return "" }

func (d *fakeServer) WaitServing(ctx context.Context) error {
	for {
		d.mu.Lock()
		dead := d.dead
		d.mu.Unlock()
		if !dead {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// fakeServers are servers of which the first leads.
type fakeServers []*fakeServer

func (fakeServers) About() string { return "fake servers" }

func (d fakeServers) All() (all []Server) {
	for _, one := range d {
		all = append(all, one)
	}
	return all
}

func (d fakeServers) Leader(context.Context) (Server, error) { return d[0], nil }

func (fakeServers) WaitServing(context.Context) error { return nil }

func (fakeServers) Close() error { return nil }

// newTestRun returns a run with three fake servers and without contenders.
func newTestRun() (*run, fakeServers) {
	servers := fakeServers{{}, {}, {}}
	return &run{
		opts: &Options{Timeout: 2 * time.Second, Servers: len(servers), Duration: time.Minute, Log: func(string, ...any) {}},
		time: clock.Start(), result: &verdict.Result{Faults: map[string]verdict.FaultCount{}}, servers: servers,
	}, servers
}
