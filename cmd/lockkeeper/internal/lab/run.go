// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A Config is the configuration of a running laboratory.
type Config struct {
	Ensemble *zktest.Ensemble
	Timeout  time.Duration    // of the contenders' sessions
	Listen   string           // address of the page, on a loopback interface
	Service  string           // URL of the lock service, for the page
	Started  func(url string) // called when the page is served
}

// Run serves the page and runs the contenders until ctx ends. It returns when all of them have ended.
func (l *Lab) Run(ctx context.Context, c Config) error {
	if !isLocal(c.Listen) {
		return fmt.Errorf("serve the laboratory: %s may be reachable from other machines, and the page lets every caller act: choose a loopback address", c.Listen)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("serve the laboratory: %w", err)
	}
	w, err := openLive(ctx, l, c.Ensemble)
	if err != nil {
		w.close()
		return errors.Join(err, listener.Close())
	}
	l.begin(c.Ensemble, w, c.Timeout)

	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	runs := make(chan func(), 1) // presets to run, one at a time
	server := newServer(ctx, l.handler(infoOf(c.Ensemble.Addrs(), c.Service), func(p *Preset, seed uint64) error {
		select {
		case runs <- func() { l.perform(ctx, p, seed) }:
			return nil
		default:
			return fmt.Errorf("run %s: another preset waits for its turn", p.Name)
		}
	}))
	failed := make(chan error, 1)
	running.Go(func() { failed <- server.Serve(listener) })
	running.Go(func() {
		l.populate(ctx)
		for {
			select {
			case f := <-runs:
				f()
			case <-ctx.Done():
				return
			}
		}
	})
	c.Started("http://" + listener.Addr().String() + "/")
	select {
	case err = <-failed:
		err = fmt.Errorf("serve the laboratory: %w", err)
	case <-ctx.Done():
	}
	stop()
	err = errors.Join(err, server.Close())
	running.Wait()
	l.close()
	w.close()
	return err
}

// populate starts the contenders, and lets them queue one after the other.
func (l *Lab) populate(ctx context.Context) {
	ctx, cancel := context.WithTimeoutCause(ctx, presetBound, errTooLong)
	defer cancel()
	p := &player{ctx: ctx, lab: l}
	for _, name := range names {
		p.do("start", name)
	}
	for _, name := range names {
		p.await(name+".server", name+" to have a session", func(v any) bool { return v != 0 })
		p.join(name)
	}
	if p.err != nil && !errors.Is(p.err, context.Canceled) {
		l.journal.add("preset", kindError, "the contenders were not started: "+p.err.Error(), nil)
	}
}

// presetBound bounds a run of a preset.
const presetBound = time.Minute

var errTooLong = fmt.Errorf("not done within %v", presetBound)

// perform runs a preset with the processes of the laboratory.
func (l *Lab) perform(ctx context.Context, p *Preset, seed uint64) {
	ctx, cancel := context.WithTimeoutCause(ctx, presetBound, errTooLong)
	defer cancel()
	l.journal.add("preset", kindNote, fmt.Sprintf("%s begins, with seed %d", p.Title, seed), state{"playing": p.Name})
	if err := l.play(ctx, p, seed); err != nil {
		l.journal.add("preset", kindError, err.Error(), state{"playing": ""})
		return
	}
	l.journal.add("preset", kindNote, p.Title+" ends", state{"playing": ""})
}
