// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Namespaces are network namespaces for servers other than ZooKeeper: one for each server, with
// an address for clients and one for the other servers. A server can be partitioned there as a
// ZooKeeper server of this package can. They need root, Linux and iproute2. Methods can be
// called concurrently for different servers.
type Namespaces struct {
	layout *layout
	made   cleanup
}

// NewNamespaces creates the namespaces of n servers, numbered from 1. Its error matches
// ErrUnsupported if that is not possible. The caller must Close them, after the servers have
// ended.
func NewNamespaces(ctx context.Context, n int) (*Namespaces, error) {
	if err := namespacesAvailable(); err != nil {
		return nil, fmt.Errorf("create network namespaces: %w: %w", ErrUnsupported, err)
	}
	ns := &Namespaces{}
	left := sweepNamespaces(ctx) // no name is used again
	var err error
	if ns.layout, err = newLayout(ctx, &ns.made, n); err == nil {
		return ns, nil
	}
	err = errors.Join(err, left, ns.made.run())
	if ctx.Err() != nil {
		return nil, fmt.Errorf("create network namespaces: %w", err)
	}
	// A machine may forbid even root to create namespaces.
	return nil, fmt.Errorf("create network namespaces: %w: %w", ErrUnsupported, err)
}

// Hosts returns a server's addresses, for clients and for the other servers.
func (ns *Namespaces) Hosts(id int) (client, peer string) {
	at := ns.layout.places[id-1]
	client, _, _ = net.SplitHostPort(at.client) // newLayout built them
	peer, _, _ = net.SplitHostPort(at.quorum)
	return client, peer
}

// Enter returns the beginning of a server's command line, which enters its namespace. That
// process needs root, and replaces itself with the command.
func (ns *Namespaces) Enter(id int) []string { return ns.layout.enter(id) }

// Partition partitions a server from clients and the other servers: see [Server.Partition].
func (ns *Namespaces) Partition(ctx context.Context, id int) error {
	return errors.Join(ns.layout.connect(ctx, id, "clients", false), ns.Isolate(ctx, id))
}

// Isolate partitions a server from the other servers only: see [Server.Isolate].
func (ns *Namespaces) Isolate(ctx context.Context, id int) error {
	return ns.layout.connect(ctx, id, "peers", false)
}

// Heal ends Partition and Isolate.
func (ns *Namespaces) Heal(ctx context.Context, id int) error {
	return errors.Join(ns.layout.connect(ctx, id, "clients", true), ns.layout.connect(ctx, id, "peers", true))
}

// Close removes the namespaces.
func (ns *Namespaces) Close() error { return ns.made.run() }
