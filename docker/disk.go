// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// halfWritten matches snapshots that a server could not finish. The server would use such a
// snapshot as the newest, and not start, because the epoch that belongs to it is missing.
const halfWritten = "snapshot.*.tmp"

// errNoDisk is the reason why a server's disk cannot be filled.
var errNoDisk = fmt.Errorf("the server does not have its own disk, see Options.DiskSize: %w", ErrUnsupported)

// FillDisk leaves no space on the server's disk, which requires Options.DiskSize. At its next
// write the server ends or stops serving.
func (s *Server) FillDisk(ctx context.Context) error {
	return s.did("fill the disk", s.node.fillDisk(ctx))
}

// FreeDisk undoes FillDisk, and removes unfinished files with which the server would
// not start. Kill the server before and start it afterwards: a server that found its
// disk full has ended, or no longer serves.
func (s *Server) FreeDisk(ctx context.Context) error {
	return s.did("free the disk", s.node.freeDisk(ctx))
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
