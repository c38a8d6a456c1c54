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
	"sync"
	"syscall"
	"time"
)

// archives maps the file of an archive to the function that returns how it was made: at most once in a process, because a Java that
// cannot make one needs seconds to show it.
var archives sync.Map

// findArchive returns the archive of the classes that a server loads (JEP 350): with it, a server starts with two thirds of the
// processor time. The first call with some Java and jars makes it, by running a server for some seconds.
func (j *java) findArchive(ctx context.Context) (string, error) {
	file, err := j.archiveFile()
	if err != nil {
		return "", err
	}
	once, _ := archives.LoadOrStore(file, sync.OnceValue(func() error {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), startBound) // for all callers
		defer cancel()
		return j.writeArchive(ctx, file)
	}))
	return within(ctx, "make an archive of the servers' classes", func() (string, error) {
		if err := once.(func() error)(); err != nil {
			return "", err
		}
		return file, nil
	})
}

// archiveFile returns the file for this Java and these jars. The JVM rejects an archive of others, and is then slower than without.
func (j *java) archiveFile() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	binary, err := filepath.EvalSymlinks(j.binary)
	if err != nil {
		return "", err
	}
	hash := sha256.New() // a write to it does not fail
	for _, file := range append(filepath.SplitList(j.classPath), binary) {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		_, _ = fmt.Fprintln(hash, file, info.Size(), info.ModTime().UnixNano())
	}
	// The binary can be a stub that starts one Java or another.
	release, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(binary)), "release"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	_, _ = fmt.Fprintln(hash, os.Getenv("JAVA_HOME"), string(release))
	return filepath.Join(cache, "lockkeeper", fmt.Sprintf("zookeeper-%.8x.jsa", hash.Sum(nil))), nil
}

// writeArchive runs a server that writes the archive when it ends. Processes that do so at the same time replace each other's file,
// which does no harm to servers that have opened it.
func (j *java) writeArchive(ctx context.Context, file string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := sweepArchives(filepath.Dir(file)); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(file), archivePrefix+self().process()+"-")
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
	run := server.latest()
	select {
	case <-run.done:
	case <-ctx.Done():
		return fmt.Errorf("wait for a server to end: %w", context.Cause(ctx))
	}
	// Otherwise it was killed while it wrote.
	if code := run.cmd.ProcessState.ExitCode(); code != 128+int(syscall.SIGTERM) {
		err = fmt.Errorf("a server ended with status %d after SIGTERM", code)
	} else {
		err = os.Rename(unnamed, file)
	}
	if err != nil {
		return fmt.Errorf("%w; the end of its log:\n%s", err, strings.TrimSpace(server.tail(ctx)))
	}
	return nil
}

const archivePrefix = "archive-"

// sweepArchives removes what killed processes left, and the archives of a month ago: an upgrade of Java or of the jars left most of
// them, and one that is still used is made again.
func sweepArchives(cache string) error {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		made := ownerOf(entry.Name(), archivePrefix)
		info, err := entry.Info()
		old := err == nil && filepath.Ext(entry.Name()) == ".jsa" && time.Since(info.ModTime()) > 30*24*time.Hour
		if old || made != "" && ended(made) {
			errs = append(errs, os.RemoveAll(filepath.Join(cache, entry.Name())))
		}
	}
	return errors.Join(errs...)
}
