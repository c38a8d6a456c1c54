// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// findArchive sets the archive of the classes that a server loads (JEP 350): with it, a server starts with two thirds of
// the processor time. The first call with some Java and jars makes it, by running a server for some seconds.
func (j *java) findArchive(ctx context.Context) error {
	key, err := j.version()
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	file := filepath.Join(cache, "lockkeeper", "zookeeper-"+key+".jsa")
	if _, err := os.Stat(file); err != nil {
		if err := j.writeArchive(ctx, file); err != nil {
			return err
		}
	}
	j.archive = file
	return nil
}

// version returns a name for this Java and these jars. The JVM ignores an archive of others.
func (j *java) version() (string, error) {
	binary, err := filepath.EvalSymlinks(j.binary)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	for _, file := range append(filepath.SplitList(j.classPath), binary) {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, file, info.Size(), info.ModTime().UnixNano())
	}
	return fmt.Sprintf("%.8x", hash.Sum(nil)), nil
}

// writeArchive runs a server that writes the archive when it ends. A process that looks for the file meanwhile makes its own.
func (j *java) writeArchive(ctx context.Context, file string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), "archive-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := (&Options{}).plan()
	if err != nil {
		return err
	}
	unnamed := filepath.Join(dir, "zookeeper.jsa")
	p.jvm = append(p.jvm, "-XX:ArchiveClassesAtExit="+unnamed)
	nodes, remove, err := j.launch(ctx, p)
	defer func() { err = errors.Join(err, remove()) }()
	if err != nil {
		return err
	}
	e := &Ensemble{servers: []*Server{{id: 1, node: nodes[0]}}}
	if err := e.settle(ctx); err != nil {
		return err
	}
	server := nodes[0].(*process)
	if err := server.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-server.latest().done:
	case <-ctx.Done():
		return fmt.Errorf("wait for a server to end: %w", context.Cause(ctx))
	}
	if err := os.Rename(unnamed, file); err != nil {
		return fmt.Errorf("%w: the end of the server's log:\n%s", err, strings.TrimSpace(server.tail(ctx)))
	}
	return nil
}
