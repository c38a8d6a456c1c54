// SPDX-License-Identifier: Apache-2.0

package contender

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNotInstalled reports that a client of another project is not installed on this machine.
var ErrNotInstalled = errors.New("not installed: `make clients` installs it")

// unpackedDir returns the folder into which clients.sh unpacks what it cannot install, "" if there is none.
func unpackedDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "lockkeeper", "foreign-clients")
}

// Python returns the command that runs a script with the distribution's Python and Kazoo.
func Python(ctx context.Context, script string, args ...string) (*exec.Cmd, error) {
	const interpreter = "/usr/bin/python3"
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, interpreter, args...)
		cmd.Env = append(cmd.Environ(),
			"PYTHONPATH="+filepath.Join(unpackedDir(), "usr/lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE=1")
		return cmd
	}
	if out, err := command("-c", "import kazoo, puresasl").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: Kazoo for %s: %w: %s", ErrNotInstalled, interpreter, err, out)
	}
	return command(append([]string{script}, args...)...), nil
}

// javaJars are the jars of Debian's packages that Java's ZooKeeper client needs, and those that Curator needs in addition. The
// client's log is discarded, because its output is read.
var javaJars = []string{
	"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "commons-cli", "commons-io", "metrics-core",
	"snappy-java", "netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-resolver", "netty-codec",
	"netty-transport-native-epoll", "netty-transport-native-unix-common",
	"curator-client", "curator-framework", "curator-recipes", "guava",
	"jackson-core", "jackson-databind", "jackson-annotations",
}

// CompileJava compiles a program that uses Java's ZooKeeper client and Curator into a folder, and returns its class path.
func CompileJava(ctx context.Context, source, folder string) (classPath string, err error) {
	var jars []string
	for _, jar := range javaJars {
		file := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(unpackedDir(), "usr/share/java", jar+".jar")
		}
		_, missing := os.Stat(file)
		err = errors.Join(err, missing)
		jars = append(jars, file)
	}
	for _, program := range []string{"java", "javac"} {
		_, missing := exec.LookPath(program)
		err = errors.Join(err, missing)
	}
	if err != nil {
		return "", fmt.Errorf("a Java client is %w: %w", ErrNotInstalled, err)
	}
	path := strings.Join(jars, string(os.PathListSeparator))
	out, err := exec.CommandContext(ctx, "javac", "-cp", path, "-d", folder, source).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("compile %s: %w: %s", source, err, out)
	}
	return strings.Join(slices.Insert(jars, 0, folder), string(os.PathListSeparator)), nil
}
