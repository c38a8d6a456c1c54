// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

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

// contend runs Contend.java, with Java's ZooKeeper client and Curator.
func contend(t *testing.T, args ...string) *contender.Process {
	t.Helper()
	compile.Do(func() { compiled, missing = compileContend(t) })
	if missing != nil {
		missingClient(t, "a Java client", missing)
	}
	command := []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m", "-cp", compiled, "Contend"}
	return contender.Start(t, exec.CommandContext(t.Context(), "java", append(command, args...)...))
}

// Contend.java is compiled once, into a folder that TestMain removes.
var (
	compile  sync.Once
	compiled string // the class path
	missing  error  // without which it could not be compiled
	classes  string
)

// compileContend returns the class path of the compiled Contend.java, or an error if something is not installed.
func compileContend(t *testing.T) (string, error) {
	t.Helper()
	var path []string
	for _, jar := range slices.Concat(zooKeeperJars, curatorJars) {
		file := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(unpackedDir(), "usr/share/java", jar+".jar")
		}
		if _, err := os.Stat(file); err != nil {
			return "", err
		}
		path = append(path, file)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", err
	}
	if _, err := exec.LookPath("javac"); err != nil {
		return "", err
	}
	jars := strings.Join(path, string(os.PathListSeparator))
	var err error
	classes, err = os.MkdirTemp("", "foreign")
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), "javac", "-cp", jars, "-d", classes, "Contend.java").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return classes + string(os.PathListSeparator) + jars, nil
}
