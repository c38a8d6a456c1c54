// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/containerd/errdefs"
	mobynet "github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"

	"github.com/lockkeeper/lockkeeper/docker/internal/image"
)

func findEngine(ctx context.Context) (_ choice, err error) {
	cli, err := image.Dial(ctx)
	if err != nil {
		return choice{}, err
	}
	defer func() { err = errors.Join(err, image.CloseIdle(cli)) }()
	name, over, err := image.Find(ctx, cli)
	if err != nil {
		return choice{}, fmt.Errorf("container engine: %w", err)
	}
	left := sweepEngine(ctx, cli)
	return choice{backend: &engine{cli: cli, image: name}, over: over, left: left}, nil
}

func (e *engine) launch(ctx context.Context, p *plan) (nodes []node, remove func() error, err error) {
	var made cleanup
	made.add(func(context.Context) error { return image.CloseIdle(e.cli) })
	clients, subnet, err := e.network(ctx, &made, false)
	if err != nil {
		return nil, made.run, err
	}
	peers, peerSubnet, err := e.network(ctx, &made, true)
	if err != nil {
		return nil, made.run, err
	}
	var places []place
	for i := range p.count() {
		peer := host(peerSubnet, 11+i).String()
		places = append(places, place{
			client: host(subnet, 11+i).String() + ":2181",
			quorum: peer + ":2888", election: peer + ":3888",
		})
	}
	var own *disks
	if p.diskSize > 0 {
		if own, err = e.disks(ctx, &made, p); err != nil {
			return nil, made.run, err
		}
	}
	members := make([]*member, p.count())
	errs := make([]error, p.count())
	var wg sync.WaitGroup
	for i := range members {
		m := &member{
			engine: e, id: i + 1, disks: own, at: places[i].client,
			clients: attachment{clients, host(subnet, 11+i)}, peers: attachment{peers, host(peerSubnet, 11+i)},
		}
		members[i] = m
		wg.Go(func() { errs[i] = m.create(ctx, p, i+1, places) })
	}
	wg.Wait()
	for _, m := range members {
		nodes = append(nodes, m)
	}
	made.add(func(ctx context.Context) error { return removeMembers(ctx, members) })
	return nodes, made.run, errors.Join(errs...)
}

// network creates a network with its own subnet. An ensemble has two, for clients and
// for peers, so that either can be partitioned. Addresses must be fixed: otherwise
// peers would look for a restarted server at its old address for the 30 s that Java
// caches names.
func (e *engine) network(ctx context.Context, made *cleanup, internal bool) (*tc.DockerNetwork, netip.Prefix, error) {
	var refused error
	for range 20 {
		subnet, err := drawSubnet()
		if err != nil {
			return nil, subnet, err
		}
		opts := []network.NetworkCustomizer{
			network.WithLabels(map[string]string{ownerLabel: self().String()}),
			network.WithIPAM(&mobynet.IPAM{Driver: "default", Config: []mobynet.IPAMConfig{{Subnet: subnet}}}),
		}
		if internal {
			opts = append(opts, network.WithInternal())
		}
		nw, err := network.New(ctx, opts...)
		if err == nil {
			made.add(nw.Remove)
			return nw, subnet, nil
		}
		// Another run may have drawn the same subnet; the engine has no error code for that.
		refused = fmt.Errorf("network %v: %w", subnet, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, netip.Prefix{}, refused
}

// sweepEngine removes the containers, volumes and networks of processes that have ended.
func sweepEngine(ctx context.Context, cli client.APIClient) error {
	mine := make(client.Filters).Add("label", ownerLabel)
	containers, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: mine})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range containers.Items {
		if orphaned(c.Labels[ownerLabel]) {
			_, err := cli.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			errs = append(errs, unlessGone(err))
		}
	}
	volumes, err := cli.VolumeList(ctx, client.VolumeListOptions{Filters: mine})
	if err != nil {
		return err
	}
	for _, v := range volumes.Items {
		if orphaned(v.Labels[ownerLabel]) {
			_, err := cli.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{Force: true})
			errs = append(errs, unlessGone(err))
		}
	}
	networks, err := cli.NetworkList(ctx, client.NetworkListOptions{Filters: mine})
	if err != nil {
		return err
	}
	for _, n := range networks.Items {
		if orphaned(n.Labels[ownerLabel]) {
			_, err := cli.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			if !errdefs.IsPermissionDenied(err) { // another sweep is removing its containers
				errs = append(errs, unlessGone(err))
			}
		}
	}
	return errors.Join(errs...)
}
