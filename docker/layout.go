// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// layout is how the servers of an ensemble reach each other and their clients.
type layout struct {
	places []place
	hub    string // the namespace in which the bridges are; "" on 127.0.0.1
	reason error  // why there is no hub
}

// loopback returns a layout with all servers on 127.0.0.1, without namespaces for reason.
func loopback(n int, reason error) (*layout, error) {
	l := &layout{reason: reason}
	for range n {
		var at [3]string
		for i := range at {
			port, err := freePort()
			if err != nil {
				return nil, err
			}
			at[i] = "127.0.0.1:" + strconv.Itoa(port)
		}
		l.places = append(l.places, place{client: at[0], quorum: at[1], election: at[2]})
	}
	return l, nil
}

// newLayout gives every server a network namespace with two interfaces, for clients and for
// peers. The bridges between them are in a separate namespace, the hub: a container engine
// configures the machine's firewall to drop forwarded packets, those between bridges included.
func newLayout(ctx context.Context, made *cleanup, n int) (*layout, error) {
	if err := namespacesAvailable(); err != nil {
		return nil, err
	}
	var subnets [2]netip.Prefix
	for subnets[0] == subnets[1] {
		for i := range subnets {
			var err error
			if subnets[i], err = drawSubnet(); err != nil {
				return nil, err
			}
		}
	}
	l := &layout{hub: fmt.Sprintf("%s%s-%08x", namespacePrefix, self().process(), rand.Uint32())}
	namespaces := []string{l.hub}
	for i := range n {
		namespaces = append(namespaces, l.server(i+1))
		peer := host(subnets[1], 11+i).String()
		l.places = append(l.places, place{
			client: host(subnets[0], 11+i).String() + ":2181",
			quorum: peer + ":2888", election: peer + ":3888",
		})
	}
	for _, ns := range namespaces {
		if err := ip(ctx, "", "netns add "+ns); err != nil {
			return nil, err
		}
		made.add(func(ctx context.Context) error { return ip(ctx, "", "netns del "+ns) })
	}
	link := fmt.Sprintf("lk%08x", rand.Uint32())
	if err := ip(ctx, "", fmt.Sprintf("link add %s type veth peer name host netns %s", link, l.hub)); err != nil {
		return nil, err
	}
	// A namespace disappears some time after its deletion, and its links with it; this one must
	// be gone when cleanup returns.
	made.add(func(ctx context.Context) error { return ip(ctx, "", "link del "+link) })
	hub := []string{
		"link add clients type bridge", "link set clients up", "link set host master clients up",
		"link add peers type bridge", "link set peers up",
	}
	for i := range n {
		for _, side := range []string{"clients", "peers"} {
			hub = append(hub,
				fmt.Sprintf("link add %s%d type veth peer name %s netns %s", side, i+1, side, l.server(i+1)),
				fmt.Sprintf("link set %s%d master %s up", side, i+1, side))
		}
	}
	if err := ip(ctx, l.hub, hub...); err != nil {
		return nil, err
	}
	for i := range n {
		err := ip(ctx, l.server(i+1), "link set lo up",
			fmt.Sprintf("addr add %v/24 dev clients", host(subnets[0], 11+i)), "link set clients up",
			fmt.Sprintf("addr add %v/24 dev peers", host(subnets[1], 11+i)), "link set peers up")
		if err != nil {
			return nil, err
		}
	}
	err := ip(ctx, "", fmt.Sprintf("addr add %v/24 dev %s", host(subnets[0], 1), link), "link set "+link+" up")
	return l, err
}

func (l *layout) server(id int) string { return fmt.Sprintf("%s-%d", l.hub, id) }

// enter returns the beginning of a command line that runs in a server's namespace. That process
// replaces itself with the command, so that signals reach the server.
func (l *layout) enter(id int) []string {
	if l.hub == "" {
		return nil
	}
	return []string{"ip", "netns", "exec", l.server(id)}
}

// connect connects a server's interface to its bridge, or disconnects it. The interface of a
// disconnected server is still up, and its packets are lost.
func (l *layout) connect(ctx context.Context, id int, side string, on bool) error {
	if l.hub == "" {
		return fmt.Errorf("%w: %w", ErrUnsupported, l.reason)
	}
	if !on {
		return ip(ctx, l.hub, fmt.Sprintf("link set %s%d nomaster", side, id))
	}
	return ip(ctx, l.hub, fmt.Sprintf("link set %s%d master %s", side, id, side))
}

const namespacePrefix = "lockkeeper-"

// sweepNamespaces removes the namespaces of killed runs, and with them their links. Their
// servers ended with the runs.
func sweepNamespaces(ctx context.Context) error {
	paths, err := filepath.Glob("/run/netns/" + namespacePrefix + "*")
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		name := filepath.Base(path)
		if made := ownerOf(name, namespacePrefix); made != "" && ended(made) {
			err := ip(ctx, "", "netns del "+name)
			if _, gone := os.Stat(path); gone == nil { // otherwise another sweep has removed it
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}

// ip runs commands of iproute2's ip in a namespace, "" for the namespace of this process, all in one
// process.
func ip(ctx context.Context, namespace string, commands ...string) error {
	args := []string{"-batch", "-"}
	if namespace != "" {
		args = append([]string{"-n", namespace}, args...)
	}
	cmd := exec.CommandContext(ctx, "ip", args...)
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %q: %w: %s", commands, err, bytes.TrimSpace(out))
	}
	return nil
}
