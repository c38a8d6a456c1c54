// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Wires are the network links of servers other than ZooKeeper's. Each server has its own network namespace, one address for
// clients and one for peers, and links that can be partitioned silently. Wires need root, Linux and iproute2. Methods are safe
// for concurrent use for different servers.
type Wires struct {
	wires *wiring
	made  cleanup
}

// NewWires creates the links of n servers, numbered from 1. Its error matches ErrUnsupported if that is not possible. The
// caller must Close it, after the servers have ended.
func NewWires(ctx context.Context, n int) (*Wires, error) {
	if err := canWire(); err != nil {
		return nil, fmt.Errorf("wires: %w: %w", ErrUnsupported, err)
	}
	w := &Wires{}
	err := sweepNamespaces(ctx)
	if err == nil {
		w.wires, err = newWiring(ctx, &w.made, n)
	}
	if err != nil {
		// A machine may forbid even root to create namespaces.
		return nil, fmt.Errorf("wires: %w: %w", ErrUnsupported, errors.Join(err, w.made.run()))
	}
	return w, nil
}

// Hosts returns a server's addresses, for clients and for peers.
func (w *Wires) Hosts(id int) (client, peer string) {
	at := w.wires.places[id-1]
	client, _, _ = net.SplitHostPort(at.client) // newWiring made them
	peer, _, _ = net.SplitHostPort(at.quorum)
	return client, peer
}

// Enter returns the beginning of a server's command line, which enters its namespace. It needs root, and replaces itself with
// the command.
func (w *Wires) Enter(id int) []string { return w.wires.enter(id) }

// Cut partitions a server from clients and peers, as [Server.Cut] does.
func (w *Wires) Cut(ctx context.Context, id int) error {
	return errors.Join(w.wires.plug(ctx, id, "clients", false), w.CutFromPeers(ctx, id))
}

// CutFromPeers partitions a server from its peers only.
func (w *Wires) CutFromPeers(ctx context.Context, id int) error {
	return w.wires.plug(ctx, id, "peers", false)
}

// Mend undoes Cut and CutFromPeers.
func (w *Wires) Mend(ctx context.Context, id int) error {
	return errors.Join(w.wires.plug(ctx, id, "clients", true), w.wires.plug(ctx, id, "peers", true))
}

// Close removes the namespaces.
func (w *Wires) Close() error { return w.made.run() }
