// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/zktest"
)

const source = "Contend.java"

// classes are those of Contend.java, in a folder of the user's cache that is named by the source and by Java: to compile it takes three
// seconds of a processor. An archive of all classes that it loads (JEP 350) is beside them: with it, a process needs half the
// processor time to start.
type classes struct {
	dir  string
	jars string // the class path of the libraries
}

// The files in the folder. The JVM makes archives only of classes in jars.
func (c *classes) jar() string     { return filepath.Join(c.dir, "contend.jar") }
func (c *classes) archive() string { return filepath.Join(c.dir, "contend.jsa") }
func (c *classes) list() string    { return filepath.Join(c.dir, "jars") } // is written last

// command returns the command that runs a contender.
func (c *classes) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	flags := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"}
	if _, err := os.Stat(c.archive()); err == nil {
		flags = append(flags, "-XX:SharedArchiveFile="+c.archive())
	}
	return exec.CommandContext(t.Context(), "java", append(append(flags, c.where()...), args...)...)
}

func (c *classes) where() []string {
	return []string{"-cp", c.jar() + string(os.PathListSeparator) + c.jars, "Contend"}
}

// findClasses returns the classes of an earlier run, or compiles them.
func findClasses(t *testing.T) (*classes, error) {
	t.Helper()
	dir, err := classesFolder()
	if err != nil {
		return nil, err
	}
	c := &classes{dir: dir}
	if list, err := os.ReadFile(c.list()); err == nil {
		jars, _, _ := strings.Cut(string(list), "\n")
		if current, err := describeJars(jars); err == nil && current == string(list) {
			c.jars = jars
			return c, nil
		}
	}
	return c, c.build(t)
}

// classesFolder returns the folder for this source and this Java.
func classesFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", err
	}
	hash := sha256.New() // a write to it does not fail
	_, _ = hash.Write(text)
	if java, err := exec.LookPath("java"); err == nil { // CompileJava reports that there is none
		if java, err = filepath.EvalSymlinks(java); err != nil {
			return "", err
		}
		// The binary can be a stub that starts one Java or another.
		release, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(java)), "release"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		_, _ = fmt.Fprintln(hash, java, os.Getenv("JAVA_HOME"), string(release))
	}
	return filepath.Join(cache, "lockkeeper", fmt.Sprintf("%s%.8x", classesPrefix, hash.Sum(nil))), nil
}

const classesPrefix = "contend-"

// describeJars returns a class path, and a line for each of its jars that changes with the jar.
func describeJars(classPath string) (string, error) {
	lines := classPath + "\n"
	for _, jar := range filepath.SplitList(classPath) {
		info, err := os.Stat(jar)
		if err != nil {
			return "", err
		}
		lines += fmt.Sprintln(info.Size(), info.ModTime().UnixNano())
	}
	return lines, nil
}

// build compiles the classes. Each file is renamed when it is complete: test binaries that build at the same time replace each
// other's file with an equal one.
func (c *classes) build(t *testing.T) error {
	t.Helper()
	if err := errors.Join(sweepClasses(filepath.Dir(c.dir)), os.MkdirAll(c.dir, 0o755)); err != nil {
		return err
	}
	work := t.TempDir()
	compiled, unnamed := filepath.Join(work, "classes"), filepath.Join(work, "archive")
	if err := os.Mkdir(compiled, 0o755); err != nil {
		return err
	}
	path, err := contender.CompileJava(t.Context(), source, compiled)
	if err != nil {
		return err
	}
	_, c.jars, _ = strings.Cut(path, string(os.PathListSeparator))
	if err := c.replace(c.jar(), func(file *os.File) error { return writeJar(file, compiled) }); err != nil {
		return err
	}
	list, err := describeJars(c.jars)
	if err != nil {
		return err
	}
	if err := c.writeArchive(t.Context(), t, unnamed); err != nil {
		t.Logf("contenders start slowly: %v", err)
		return nil
	}
	content, err := os.ReadFile(unnamed)
	if err != nil {
		return err
	}
	write := func(content []byte) func(*os.File) error {
		return func(file *os.File) error { _, err := file.Write(content); return err }
	}
	if err := c.replace(c.archive(), write(content)); err != nil {
		return err
	}
	return c.replace(c.list(), write([]byte(list)))
}

// replace writes a file of the folder. Its time is always the same: the JVM compares the time of a jar with that in the archive.
func (c *classes) replace(name string, write func(*os.File) error) error {
	file, err := os.CreateTemp(c.dir, "unfinished-")
	if err != nil {
		return err
	}
	err = errors.Join(write(file), file.Close())
	if err == nil {
		err = errors.Join(os.Chtimes(file.Name(), time.Time{}, time.Unix(1e9, 0)), os.Rename(file.Name(), name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

func writeJar(file *os.File, dir string) error {
	jar := zip.NewWriter(file)
	return errors.Join(jar.AddFS(os.DirFS(dir)), jar.Close())
}

// writeArchive runs a contender that writes the archive when it ends.
func (c *classes) writeArchive(ctx context.Context, t *testing.T, file string) error {
	t.Helper()
	server := zktest.Start(t, nil)
	cmd := exec.CommandContext(ctx, "java", append(append([]string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
		"-XX:ArchiveClassesAtExit=" + file,
	}, c.where()...), "mutex", strings.Join(server.Addrs(), ","), "/lock")...)
	cmd.Stdin = strings.NewReader("acquire\ntry\nrelease\nsession\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("write an archive of classes: %w: %s", err, out)
	}
	return nil
}

// sweepClasses removes folders of a month ago: other sources or another Java left most of them.
func sweepClasses(cache string) error {
	dirs, err := filepath.Glob(filepath.Join(cache, classesPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > 30*24*time.Hour {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}
