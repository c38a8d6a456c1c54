// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// probeBound is how many T a path may take to be had by who comes when everything is healed and all others have stopped.
// What those held that were killed may last T, and the servers' own rhythm adds to it.
const probeBound = 3

// probe has one more contender acquire each path, after all others. It finds out what was left behind, whatever that
// consists of.
func (r *run) probe(ctx context.Context) error {
	c := &contender{run: r, number: len(r.contenders) + 1, clients: 1, probes: true}
	r.contenders = append(r.contenders, c)
	for _, server := range r.servers.All() {
		p, err := docker.NewProxy(server.Addr())
		if err != nil {
			return err
		}
		c.proxies = append(c.proxies, p)
	}
	began := r.time.Now()
	if err := c.start(); err != nil {
		return err
	}
	l := c.current()
	select {
	case <-l.ended: // how, was told then
	case <-time.After(probeBound*r.opts.Timeout + 10*time.Second):
		r.problemf("not all paths could be had %v after everybody had stopped: something is left behind: %s",
			time.Duration(r.time.Now()-began).Round(time.Millisecond), r.recorder.outstanding(l.name))
		c.kill()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.result.Had == nil {
		r.result.Had = map[string]history.Instant{}
	}
	for path, waited := range r.recorder.waits(l.name, began) {
		r.result.Had[path] = waited
		if waited > probeBound*history.Instant(r.opts.Timeout) {
			r.problemf("%s was left behind: it could be had only %v after everybody had stopped", path, waited)
		}
	}
	return nil
}

// waits says, by path, how long after an instant a contender was granted it.
func (r *recorder) waits(contender string, since history.Instant) map[string]history.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	waits := map[string]history.Instant{}
	for _, e := range r.events {
		if e.Contender == contender && e.Kind == history.Granted {
			waits[e.Path] = e.At - since
		}
	}
	return waits
}
