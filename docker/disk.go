// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

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

// halfWritten matches snapshots that a server could not finish. The server would use it
// as the newest one and not start, because it is newer than the epoch that could not be
// written.
const halfWritten = "snapshot.*.tmp"

// errNoDisk is the reason why a server's disk cannot be filled.
var errNoDisk = fmt.Errorf("the server does not have its own disk, see Options.DiskSize: %w", ErrUnsupported)

// FillDisk fills the server's disk, for which Options.DiskSize must be set. At its next
// write the server ends or stops serving.
func (s *Server) FillDisk(ctx context.Context) error {
	return s.did("fill the disk", s.node.fillDisk(ctx))
}

// FreeDisk undoes FillDisk, and removes unfinished files with which the server would
// not start. Kill the server before and start it afterwards: a server that found its
// disk full has ended, or hangs.
func (s *Server) FreeDisk(ctx context.Context) error {
	return s.did("free the disk", s.node.freeDisk(ctx))
}

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
	said, err := io.ReadAll(out)
	if err != nil || code != 0 {
		return errors.Join(fmt.Errorf("%s: status %d: %q", command, code, said), err)
	}
	return nil
}

func (m *member) fillerPath() string { return fmt.Sprintf("%s/%d/%s", keptDisks, m.id, filler) }

func (m *member) fillDisk(ctx context.Context) error {
	if m.disks == nil {
		return errNoDisk
	}
	// The command is expected to fail when the disk is full.
	return m.disks.sh(ctx, "cat /dev/zero > "+m.fillerPath()+"; test -s "+m.fillerPath())
}

func (m *member) freeDisk(ctx context.Context) error {
	if m.disks == nil {
		return errNoDisk
	}
	return m.disks.sh(ctx, fmt.Sprintf("rm -f %s %s/%d/version-2/%s", m.fillerPath(), keptDisks, m.id, halfWritten))
}

// disk returns the folder of a process's data.
func (pr *process) disk() string { return filepath.Join(pr.dir, "data") }

func (pr *process) fillDisk(context.Context) error {
	if !pr.ownDisk {
		return errNoDisk
	}
	file, err := os.Create(filepath.Join(pr.disk(), filler))
	if err != nil {
		return err
	}
	block := make([]byte, 64<<10)
	for err == nil {
		_, err = file.Write(block)
	}
	err = errors.Join(err, file.Close())
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

func (pr *process) freeDisk(context.Context) error {
	if !pr.ownDisk {
		return errNoDisk
	}
	names, err := filepath.Glob(filepath.Join(pr.disk(), "version-2", halfWritten))
	errs := []error{err}
	for _, name := range append(names, filepath.Join(pr.disk(), filler)) {
		if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
