// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker/internal/need"
)

func TestServersShareAnArchiveOfTheirClasses(t *testing.T) {
	ctx := bounded(t)
	jars, err := findJars(ctx, t.Logf)
	need.Backend(t, "java", err)
	t.Setenv("ZOOKEEPER_CLASSPATH", jars)
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // so that it is made here
	c, err := findJava(ctx, t.Logf)
	need.Backend(t, "java", err)
	require.NoError(t, c.slow)
	j := c.backend.(*java)
	require.FileExists(t, j.archive)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(j.archive), "archive-*"))
	require.NoError(t, err)
	require.Empty(t, left)

	e := Start(t, &Options{Backend: "java"})
	server := e.Server(1).node.(*process)
	mapped, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", server.latest().cmd.Process.Pid))
	require.NoError(t, err)
	require.Contains(t, string(mapped), j.archive)
	log, err := os.ReadFile(filepath.Join(server.dir, "log"))
	require.NoError(t, err)
	require.NotContains(t, string(log), "[warning]", "the JVM accepts it")
}

func TestJavaWithoutAnArchiveStartsServers(t *testing.T) {
	ctx := bounded(t)
	jars, err := findJars(ctx, t.Logf)
	need.Backend(t, "java", err)
	t.Setenv("ZOOKEEPER_CLASSPATH", jars)
	t.Setenv("XDG_CACHE_HOME", "/dev/null")
	c, err := findJava(ctx, t.Logf)
	need.Backend(t, "java", err)
	require.Empty(t, c.backend.(*java).archive)
	require.Contains(t, c.report("tests"), "tests: servers start more slowly, without an archive of their classes: ")
	Start(t, &Options{Backend: "java"})
}
