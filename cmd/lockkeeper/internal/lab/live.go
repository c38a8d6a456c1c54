// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"errors"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// live is the environment of a running laboratory: each contender is a process with its own network, and each register has a socket.
// Only a caller with the turn of the laboratory uses it.
type live struct {
	servers   []string
	lab       *Lab
	networks  map[string]*network  // by contender
	endpoints map[string]*endpoint // by register
}

// openLive opens the sockets of the registers. The caller closes it, even after an error.
func openLive(ctx context.Context, l *Lab, ensemble *zktest.Ensemble) (*live, error) {
	w := &live{servers: ensemble.Addrs(), lab: l, networks: map[string]*network{}, endpoints: map[string]*endpoint{}}
	var errs []error
	for name, r := range l.registers {
		d, err := openEndpoint(ctx, r.handler())
		w.endpoints[name] = d
		errs = append(errs, err)
	}
	return w, errors.Join(errs...)
}

func (w *live) start(ctx context.Context, m *member, received func(report), ended func(error)) (runner, error) {
	n := w.networks[m.name]
	if n == nil {
		var err error
		if n, err = newNetwork(ctx, m.link, w.servers); err != nil {
			return nil, err
		}
		w.networks[m.name] = n
	}
	t := task{Name: m.name, Servers: n.addresses(), Timeout: w.lab.timeout, Registers: map[string]string{}}
	for name, d := range w.endpoints {
		t.Registers[name] = "http://" + d.address + "/"
	}
	return startProcess(t, received, ended)
}

func (w *live) setAway(ctx context.Context, register string, away bool) error {
	if away {
		w.endpoints[register].close()
		return nil
	}
	return w.endpoints[register].open(ctx)
}

// close closes all sockets, after the processes have ended.
func (w *live) close() {
	for _, n := range w.networks {
		n.close()
	}
	for _, d := range w.endpoints {
		d.close()
	}
}
