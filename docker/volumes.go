// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
)

// Where the disks of servers are, in the container that mounts them and in the
// server's own, and the file that fills them.
const (
	keptDisks  = "/disks"
	serverDisk = "/data"
	filler     = "filler"
)

// disks are the in-memory volumes of an ensemble's servers. Such a volume lasts as
// long as a running container mounts it. A killed server's container does not run, so
// a separate container mounts all volumes.
type disks struct {
	volumes []string // of each server
	keeper  *tc.DockerContainer
}

func (e *engine) disks(ctx context.Context, made *cleanup, p *plan) (*disks, error) {
	d := &disks{}
	label := map[string]string{ownerLabel: self().String()}
	var mounts []mount.Mount
	for i := range p.count() {
		name := fmt.Sprintf("lockkeeper-%s-%08x-%d", self().process(), rand.Uint32(), i+1)
		_, err := e.cli.VolumeCreate(ctx, client.VolumeCreateOptions{Name: name, Driver: "local", Labels: label, DriverOpts: map[string]string{
			"type": "tmpfs", "device": "tmpfs", "o": fmt.Sprintf("size=%d,uid=1000,gid=1000,mode=0755", p.diskSize),
		}})
		if err != nil {
			return nil, fmt.Errorf("disk of server %d: %w", i+1, err)
		}
		made.add(func(ctx context.Context) error {
			_, err := e.cli.VolumeRemove(ctx, name, client.VolumeRemoveOptions{Force: true})
			return unlessGone(err)
		})
		d.volumes = append(d.volumes, name)
		mounts = append(mounts, d.mount(i+1, fmt.Sprintf("%s/%d", keptDisks, i+1)))
	}
	var err error
	d.keeper, err = tc.Run(ctx, e.image,
		tc.WithLogger(tclog.NewNoopLogger()), tc.WithLabels(label),
		tc.WithEntrypoint("sleep", "1000000000"), tc.WithCmd(),
		tc.WithConfigModifier(func(c *container.Config) {
			c.User = "0:0"
			c.ExposedPorts = nil
		}),
		tc.WithHostConfigModifier(func(h *container.HostConfig) {
			h.NetworkMode, h.Mounts = "none", mounts
		}))
	made.add(func(ctx context.Context) error {
		if d.keeper == nil {
			return nil
		}
		_, err := e.cli.ContainerRemove(ctx, d.keeper.GetContainerID(), client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return unlessGone(err)
	})
	if err != nil {
		return nil, fmt.Errorf("start the container that mounts the disks: %w", err)
	}
	return d, nil
}

func (d *disks) mount(id int, at string) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: d.volumes[id-1], Target: at, VolumeOptions: &mount.VolumeOptions{NoCopy: true}}
}

// sh runs a command in the container that mounts the disks.
func (d *disks) sh(ctx context.Context, command string) error {
	code, out, err := d.keeper.Exec(ctx, []string{"sh", "-c", command})
	if err != nil {
		return err
	}
	output, err := io.ReadAll(out)
	if err != nil || code != 0 {
		return errors.Join(fmt.Errorf("%s: status %d: %q", command, code, output), err)
	}
	return nil
}
