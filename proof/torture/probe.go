// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// probeBound is how many T the acquisition of a path may take when all faults are healed and all other contenders have stopped.
// The claims of killed processes may last T, and the servers' tick adds to it.
const probeBound = 3

// probe starts one more contender, which acquires each path after all others have stopped. It detects what they left behind.
func (r *run) probe(ctx context.Context) error {
	c := &contender{run: r, number: len(r.contenders) + 1, clients: 1, probes: true}
	r.contenders = append(r.contenders, c)
	if err := c.connect(); err != nil {
		return err
	}
	bound := max(probeBound*r.opts.Timeout, r.opts.expiry()+r.opts.Timeout)
	began := r.time.Now()
	if err := c.start(); err != nil {
		return err
	}
	p := c.current()
	select {
	case <-p.ended: // processEnded has reported how
	case <-time.After(bound + 10*time.Second):
		r.problemf("probe: some paths could not be acquired within %v after all contenders had stopped: they left something behind: %s",
			time.Duration(r.time.Now()-began).Round(time.Millisecond), r.recorder.outstanding(p.name))
		c.kill()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.result.Acquired == nil {
		r.result.Acquired = map[string]history.Instant{}
	}
	for path, waited := range r.recorder.waits(p.name, began) {
		r.result.Acquired[path] = waited
		if waited > history.Instant(bound) {
			r.problemf("probe %s: acquired only %v after all contenders had stopped: they left something behind", path, waited)
		}
	}
	return nil
}

// waits returns, by path, how long after an instant a contender was granted it.
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
