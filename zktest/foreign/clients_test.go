// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockkeeper/lockkeeper/internal/contender"
	"github.com/lockkeeper/lockkeeper/internal/need"
)

// missingClient ends a test whose client is not installed.
func missingClient(tb testing.TB, what string, err error) {
	tb.Helper()
	need.Lacking(tb, "%s is missing: %v: install it with `make clients`", what, err)
}

// unpackedDir returns the folder into which clients.sh unpacks what it cannot install, "" if there is none.
func unpackedDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "lockkeeper", "foreign-clients")
}

// python runs a script of this folder, with the distribution's Python and Kazoo.
func python(t *testing.T, script string, args ...string) *contender.Process {
	t.Helper()
	const interpreter = "/usr/bin/python3"
	env := []string{
		"PYTHONPATH=" + filepath.Join(unpackedDir(), "usr/lib/python3/dist-packages"),
		"PYTHONDONTWRITEBYTECODE=1",
	}
	probe := exec.CommandContext(t.Context(), interpreter, "-c", "import kazoo, puresasl")
	probe.Env = append(probe.Environ(), env...)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		missingClient(t, "Kazoo for "+interpreter, err)
	}
	cmd := exec.CommandContext(t.Context(), interpreter, append([]string{script}, args...)...)
	cmd.Env = append(cmd.Environ(), env...)
	return contender.Start(t, cmd)
}

// zooKeeperJars are the jars of Debian's packages that Java's ZooKeeper client needs, curatorJars those that Curator
// needs in addition. The client's log is discarded, because the tests read its output.
var (
	zooKeeperJars = []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "commons-cli", "commons-io", "metrics-core",
		"snappy-java", "netty-common", "netty-handler", "netty-transport", "netty-buffer", "netty-resolver", "netty-codec",
		"netty-transport-native-epoll", "netty-transport-native-unix-common",
	}
	curatorJars = []string{
		"curator-client", "curator-framework", "curator-recipes", "guava",
		"jackson-core", "jackson-databind", "jackson-annotations",
	}
)

// java runs a source file of this folder, with these jars.
func java(t *testing.T, jars []string, main string, args ...string) *contender.Process {
	t.Helper()
	binary, err := exec.LookPath("java")
	if err != nil {
		missingClient(t, "Java", err)
	}
	var path []string
	for _, jar := range jars {
		file := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(unpackedDir(), "usr/share/java", jar+".jar")
		}
		if _, err := os.Stat(file); err != nil {
			missingClient(t, jar+".jar", err)
		}
		path = append(path, file)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		missingClient(t, "a JDK", err)
	}
	command := []string{
		"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
		"-cp", strings.Join(path, string(os.PathListSeparator)), main,
	}
	return contender.Start(t, exec.CommandContext(t.Context(), binary, append(command, args...)...))
}
