// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// external is an ensemble that ZK_SERVERS names. This package did not start it, and injects no
// faults into it.
type external []string

func externalServers(list string) (backend, error) {
	var e external
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("ZK_SERVERS=%q: %w", list, err)
		}
		e = append(e, addr)
	}
	return e, nil
}

func (e external) describe() string { return "the servers of ZK_SERVERS, " + strings.Join(e, ",") }

func (e external) launch(_ context.Context, p *plan) ([]node, func() error, error) {
	nothing := func() error { return nil }
	if len(e) < p.servers {
		return nil, nothing, fmt.Errorf("%d servers required, ZK_SERVERS names %d: %w", p.servers, len(e), ErrUnsupported)
	}
	if len(p.counters) > 0 {
		return nil, nothing, fmt.Errorf("Options.Counters requires new servers: %w", ErrUnsupported)
	}
	if len(p.files) > 0 {
		return nil, nothing, fmt.Errorf("Options.Files requires new servers: %w", ErrUnsupported)
	}
	if p.diskSize > 0 {
		return nil, nothing, fmt.Errorf("Options.DiskSize requires new servers: %w", ErrUnsupported)
	}
	var nodes []node
	for _, addr := range e {
		nodes = append(nodes, externalNode(addr))
	}
	return nodes, nothing, nil
}

type externalNode string

func (n externalNode) refuse() error {
	return fmt.Errorf("ZK_SERVERS names this server: no fault can be injected: %w", ErrUnsupported)
}

func (n externalNode) addr() string                           { return string(n) }
func (n externalNode) running(context.Context) error          { return nil }
func (n externalNode) kill(context.Context) error             { return n.refuse() }
func (n externalNode) start(context.Context) error            { return n.refuse() }
func (n externalNode) pause(context.Context) error            { return n.refuse() }
func (n externalNode) unpause(context.Context) error          { return n.refuse() }
func (n externalNode) partition(context.Context) error        { return n.refuse() }
func (n externalNode) isolate(context.Context) error          { return n.refuse() }
func (n externalNode) heal(context.Context) error             { return n.refuse() }
func (n externalNode) fillDisk(context.Context) error         { return n.refuse() }
func (n externalNode) freeDisk(context.Context) error         { return n.refuse() }
func (n externalNode) saveLogs(context.Context, string) error { return n.refuse() }
func (n externalNode) tail(context.Context) string            { return n.refuse().Error() }
