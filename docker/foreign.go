// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"net"
	"strings"
)

// foreign is an ensemble that this package did not start, and cannot change.
type foreign []string

func foreignServers(list string) (backend, error) {
	var f foreign
	for addr := range strings.SplitSeq(list, ",") {
		addr = strings.TrimSpace(addr)
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("ZK_SERVERS=%q: %w", list, err)
		}
		f = append(f, addr)
	}
	return f, nil
}

func (f foreign) describe() string { return "the servers of ZK_SERVERS, " + strings.Join(f, ",") }

func (f foreign) launch(_ context.Context, p *plan) ([]node, func() error, error) {
	nothing := func() error { return nil }
	if len(f) < p.servers {
		return nil, nothing, fmt.Errorf("%d servers wanted, ZK_SERVERS names %d: %w", p.servers, len(f), ErrUnsupported)
	}
	if len(p.counters) > 0 {
		return nil, nothing, fmt.Errorf("Options.Counters needs servers that are not running yet: %w", ErrUnsupported)
	}
	if p.diskSize > 0 {
		return nil, nothing, fmt.Errorf("Options.DiskSize needs servers that are not running yet: %w", ErrUnsupported)
	}
	var nodes []node
	for _, addr := range f {
		nodes = append(nodes, foreignNode(addr))
	}
	return nodes, nothing, nil
}

type foreignNode string

func (n foreignNode) refuse() error {
	return fmt.Errorf("the server is named by ZK_SERVERS and not ours to change: %w", ErrUnsupported)
}

func (n foreignNode) addr() string                           { return string(n) }
func (n foreignNode) running(context.Context) error          { return nil }
func (n foreignNode) kill(context.Context) error             { return n.refuse() }
func (n foreignNode) start(context.Context) error            { return n.refuse() }
func (n foreignNode) pause(context.Context) error            { return n.refuse() }
func (n foreignNode) unpause(context.Context) error          { return n.refuse() }
func (n foreignNode) cut(context.Context) error              { return n.refuse() }
func (n foreignNode) cutFromPeers(context.Context) error     { return n.refuse() }
func (n foreignNode) mend(context.Context) error             { return n.refuse() }
func (n foreignNode) fillDisk(context.Context) error         { return n.refuse() }
func (n foreignNode) freeDisk(context.Context) error         { return n.refuse() }
func (n foreignNode) saveLogs(context.Context, string) error { return n.refuse() }
func (n foreignNode) tail(context.Context) string            { return n.refuse().Error() }
