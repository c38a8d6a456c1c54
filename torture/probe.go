// SPDX-License-Identifier: Apache-2.0

//go:build unix

package torture

import (
	"context"
	"time"

	"github.com/lockkeeper/lockkeeper/docker"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// visitBound is how many T a path may take to be had by who comes when everything is healed and all others have stopped.
// What those held that were killed may last T, and the servers' own rhythm adds to it.
const visitBound = 3

// visit has one more contender acquire each path, after all others. It finds out what was left behind, whatever that
// consists of.
func (s *stage) visit(ctx context.Context) error {
	c := &contender{stage: s, number: len(s.contenders) + 1, clients: 1, visitor: true}
	s.contenders = append(s.contenders, c)
	for _, server := range s.servers.All() {
		p, err := docker.NewProxy(server.Addr())
		if err != nil {
			return err
		}
		c.proxies = append(c.proxies, p)
	}
	began := s.time.Now()
	if err := c.start(); err != nil {
		return err
	}
	l := c.current()
	select {
	case <-l.ended: // how, was told then
	case <-time.After(visitBound*s.opts.Timeout + 10*time.Second):
		s.amiss("not all paths could be had %v after everybody had stopped: something is left behind: %s",
			time.Duration(s.time.Now()-began).Round(time.Millisecond), s.journal.owed(l.name))
		c.kill()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if s.result.Had == nil {
		s.result.Had = map[string]history.Instant{}
	}
	for path, waited := range s.journal.waits(l.name, began) {
		s.result.Had[path] = waited
		if waited > visitBound*history.Instant(s.opts.Timeout) {
			s.amiss("%s was left behind: it could be had only %v after everybody had stopped", path, waited)
		}
	}
	return nil
}

// waits says, by path, how long after an instant a contender was granted it.
func (j *journal) waits(contender string, since history.Instant) map[string]history.Instant {
	j.mu.Lock()
	defer j.mu.Unlock()
	waits := map[string]history.Instant{}
	for _, e := range j.events {
		if e.Contender == contender && e.Kind == history.Granted {
			waits[e.Path] = e.At - since
		}
	}
	return waits
}
