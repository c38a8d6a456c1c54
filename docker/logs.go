// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// logPrefixes are the prefixes of the names of a server's transaction logs, followed by their
// first zxid, and of its snapshots, followed by their last.
var logPrefixes = []string{"log.", "snapshot."}

// isLog reports whether a file name belongs to a transaction log or a snapshot.
func isLog(name string) bool {
	return slices.ContainsFunc(logPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// outputName is the name of the copy of a server's output.
const outputName = "server.log"

func (m *member) saveLogs(ctx context.Context, dir string) error {
	output, err := os.Create(filepath.Join(dir, outputName))
	if err != nil {
		return err
	}
	err = m.output(ctx, output, "all")
	if err := errors.Join(err, output.Close()); err != nil {
		return err
	}
	return m.saveTransactions(ctx, dir)
}

func (m *member) saveTransactions(ctx context.Context, dir string) (err error) {
	r, err := m.engine.cli.CopyFromContainer(ctx, m.ctr.GetContainerID(),
		client.CopyFromContainerOptions{SourcePath: "/data/version-2"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Content.Close()) }()
	for archive := tar.NewReader(r.Content); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("archive of the data folder: %w", err)
		}
		name := path.Base(h.Name)
		if h.Typeflag != tar.TypeReg || !isLog(name) {
			continue
		}
		if err := save(filepath.Join(dir, name), archive); err != nil {
			return err
		}
	}
}

func (pr *process) saveLogs(_ context.Context, dir string) error {
	names, err := filepath.Glob(filepath.Join(pr.dir, "data", "version-2", "*"))
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !isLog(filepath.Base(name)) })
	to := map[string]string{filepath.Join(pr.dir, "log"): outputName}
	for _, name := range names {
		to[name] = filepath.Base(name)
	}
	for name, copied := range to {
		from, err := os.Open(name)
		if err != nil {
			return err
		}
		err = save(filepath.Join(dir, copied), from)
		if err := errors.Join(err, from.Close()); err != nil {
			return err
		}
	}
	return nil
}

func save(name string, from io.Reader) error {
	to, err := os.Create(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
