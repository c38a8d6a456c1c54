// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// absent ends a test whose client is not installed. Where CI is set that is a failure, so that a green run there has
// not skipped what it was for.
func absent(tb testing.TB, what string, err error) {
	tb.Helper()
	const advice = "not run: %s is missing (%v); `make clients` gets it where it can"
	switch os.Getenv("CI") {
	case "", "false", "0":
		tb.Skipf(advice, what, err)
	default:
		tb.Fatalf(advice, what, err)
	}
}

// unpacked is the folder into which clients.sh unpacks what it cannot install, "" where there is none.
func unpacked() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "lockkeeper", "foreign-clients")
}

// python runs a script of this folder, with the distribution's own Python and its Kazoo.
func python(t *testing.T, script string, args ...string) *process {
	t.Helper()
	const interpreter = "/usr/bin/python3"
	env := []string{
		"PYTHONPATH=" + filepath.Join(unpacked(), "usr/lib/python3/dist-packages"),
		"PYTHONDONTWRITEBYTECODE=1",
	}
	probe := exec.CommandContext(t.Context(), interpreter, "-c", "import kazoo")
	probe.Env = append(probe.Environ(), env...)
	if out, err := probe.CombinedOutput(); err != nil {
		t.Logf("%s", out)
		absent(t, "Kazoo for "+interpreter, err)
	}
	return start(t, script, env, append([]string{interpreter, script}, args...)...)
}

// zooKeeperJars are what Java's own client needs of Debian's packages, curatorJars what Curator needs besides. It logs
// to nowhere: what it prints is what we read.
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

// java runs a class, or a source file of this folder, with the jars.
func java(t *testing.T, jars []string, main string, args ...string) *process {
	t.Helper()
	binary, err := exec.LookPath("java")
	if err != nil {
		absent(t, "Java", err)
	}
	var path []string
	for _, jar := range jars {
		file := filepath.Join("/usr/share/java", jar+".jar")
		if _, err := os.Stat(file); err != nil {
			file = filepath.Join(unpacked(), "usr/share/java", jar+".jar")
		}
		if _, err := os.Stat(file); err != nil {
			absent(t, jar+".jar", err)
		}
		path = append(path, file)
	}
	if filepath.Ext(main) == ".java" {
		if _, err := exec.LookPath("javac"); err != nil {
			absent(t, "a JDK", err)
		}
	}
	command := []string{
		binary, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
		"-cp", strings.Join(path, string(os.PathListSeparator)), main,
	}
	return start(t, main, nil, append(command, args...)...)
}

func TestAbsentClientIsAFailureInCIAndNotRunElsewhere(t *testing.T) {
	for _, c := range []struct{ ci, want string }{
		{"", "skipped"}, {"false", "skipped"}, {"0", "skipped"}, {"true", "failed"}, {"1", "failed"},
	} {
		t.Setenv("CI", c.ci)
		told := &verdict{TB: t}
		absent(told, "a client", os.ErrNotExist)
		require.Equal(t, c.want, told.what, "CI=%q", c.ci)
	}
}

// A verdict is a test that only notes how it is ended.
type verdict struct {
	testing.TB
	what string
}

func (v *verdict) Skipf(string, ...any)  { v.what = "skipped" }
func (v *verdict) Fatalf(string, ...any) { v.what = "failed" }
