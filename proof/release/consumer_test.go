// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	repository = "../.."
	lockkeeper = "github.com/lockkeeper/lockkeeper"
	version    = "v0.1.0"
)

// A consumer is a module outside the repository.
type consumer struct {
	dir string
	env []string
}

// newConsumer returns an empty folder, in which the go command finds the published modules as version v0.1.0. Other
// modules come from the module cache of this machine, or from its proxy if they are not in the cache.
func newConsumer(t *testing.T) consumer {
	t.Helper()
	cache := filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")
	dir := t.TempDir()
	return consumer{dir: dir, env: append(
		os.Environ(),
		"GOPROXY="+strings.Join([]string{url(proxy()), url(cache), goEnv(t, "GOPROXY")}, ","),
		"GOENV=off", "GOPRIVATE=", "GONOPROXY=", // whatever this machine fetches without a proxy
		"GOSUMDB=off", // the modules of the working tree are in no checksum database
		"GOWORK=",
		"GOBIN="+filepath.Join(dir, "bin"),
		// A module cache apart from this machine's, which must not take the working tree for v0.1.0.
		"GOMODCACHE="+filepath.Join(shared, "mod"),
		// With -trimpath a package in a temporary folder is compiled once, and not in each test run.
		"GOFLAGS=-modcacherw -trimpath",
	)}
}

// shared is a folder for all tests with a proxy, which has the modules of the working tree, and a module cache.
var shared string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) (code int) {
	var err error
	shared, err = os.MkdirTemp("", "release")
	if err == nil {
		defer func() {
			if err := os.RemoveAll(shared); err != nil {
				code = max(code, fail(err))
			}
		}()
		err = Publish(context.Background(), repository, version, proxy())
	}
	if err != nil {
		return fail(err)
	}
	return m.Run()
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func proxy() string { return filepath.Join(shared, "proxy") }

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// url returns the file URL of a folder. Windows paths have no slash in front.
func url(dir string) string {
	return "file:///" + strings.TrimPrefix(filepath.ToSlash(dir), "/")
}

func (c consumer) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600))
}

// run runs a command in the consumer's folder and returns its output.
func (c consumer) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = c.dir
	cmd.Env = c.env
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s %s:\n%s", name, strings.Join(args, " "), out)
	return string(out)
}

// build has the consumer require each module at v0.1.0, builds it, and lists its modules. It does not vet: all packages below would be
// compiled and analysed again, as they are in another module cache.
func (c consumer) build(t *testing.T, modules ...string) {
	t.Helper()
	c.run(t, "go", "mod", "init", "example.com/consumer")
	for _, m := range modules {
		c.run(t, "go", "get", m+"@"+version)
	}
	c.run(t, "go", "mod", "tidy")
	c.run(t, "go", "test", "-vet=off", "-run", "^$", "./...") // builds the program and its tests
	listed := c.run(t, "go", "list", "-m", "all")
	for _, m := range modules {
		require.Contains(t, listed, m+" "+version+"\n")
	}
	require.NotContains(t, listed, "=>")
}

const usesRoot = `package main

import (
	"context"
	"log"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/lock"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func main() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, []string{"localhost:2181"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := lock.New(client, "/locks/ledger", nil); err != nil {
		log.Fatal(err)
	}
	if _, err := election.New(client, "/election/controller", nil); err != nil {
		log.Fatal(err)
	}
}
`

const usesDocker = `package main

import (
	"context"
	"testing"

	"github.com/lockkeeper/lockkeeper/docker"
)

func TestEnsemble(t *testing.T) {
	ensemble, err := docker.Run(context.Background(), &docker.Options{Servers: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := ensemble.Close(); err != nil {
		t.Fatal(err)
	}
}
`

const usesTraces = `package main

import (
	"context"
	"log"

	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/trace/oteltrace"
	"github.com/lockkeeper/lockkeeper/trace/promtrace"
)

func main() {
	metrics := promtrace.New(nil)
	client, err := recipes.Connect(context.Background(), []string{"localhost:2181"}, &recipes.Options{Trace: metrics.Trace()})
	if err != nil {
		log.Fatal(err)
	}
	metrics.SetClient(client)
	if _, err := oteltrace.New(nil); err != nil {
		log.Fatal(err)
	}
}
`

func TestConsumerOfRootAloneLinksOnlyZooKeeperClient(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesRoot)
	c.build(t, lockkeeper)
	c.run(t, "go", "build", "-o", "bin/", ".")
	linked := map[string]bool{}
	for m := range strings.FieldsSeq(c.run(t, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")) {
		linked[m] = true
	}
	require.Equal(t, map[string]bool{"example.com/consumer": true, lockkeeper: true, "github.com/go-zookeeper/zk": true}, linked)
}

func TestConsumerOfDockerAloneBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "consumer_test.go", usesDocker)
	c.build(t, lockkeeper+"/docker")
}

func TestConsumerOfRootAndDockerBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesRoot)
	c.write(t, "consumer_test.go", usesDocker)
	c.build(t, lockkeeper, lockkeeper+"/docker")
	c.run(t, "go", "build", "-o", "bin/", ".")
}

func TestConsumerOfMetricAdaptersBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesTraces)
	c.build(t, lockkeeper+"/trace/promtrace", lockkeeper+"/trace/oteltrace")
}

const usesKerberos = `package main

import (
	"context"
	"log"

	"github.com/lockkeeper/lockkeeper/recipes/kerberos"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func main() {
	mechanism := kerberos.New(kerberos.Keytab("krb5.conf", "worker.keytab", "worker"), nil)
	defer mechanism.Close()
	if _, err := recipes.Connect(context.Background(), []string{"localhost:2181"}, &recipes.Options{SASL: mechanism}); err != nil {
		log.Print(err)
	}
}
`

func TestConsumerOfKerberosBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesKerberos)
	c.build(t, lockkeeper+"/recipes/kerberos")
}

const usesCallbacks = `package main

import (
	"context"
	"log"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/lockkeeper/lockkeeper/election"
	"github.com/lockkeeper/lockkeeper/election/clientgo"
	"github.com/lockkeeper/lockkeeper/recipes"
)

func main() {
	ctx := context.Background()
	client, err := recipes.Connect(ctx, []string{"localhost:2181"}, nil)
	if err != nil {
		log.Fatal(err)
	}
	e, err := election.New(client, "/election/controller", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := clientgo.Run(ctx, e, leaderelection.LeaderCallbacks{}); err != nil {
		log.Fatal(err)
	}
}
`

// It does not build: the go command would compile client-go for this test alone.
func TestConsumerOfCallbacksFindsAllItsPackages(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesCallbacks)
	c.run(t, "go", "mod", "init", "example.com/consumer")
	c.run(t, "go", "get", ".")
	require.Contains(t, c.run(t, "go", "list", "-deps", "."), lockkeeper+"/election/clientgo\n")
}

func TestPublishedCommandsAreInstalled(t *testing.T) {
	c := newConsumer(t)
	c.run(t, "go", "install", lockkeeper+"/cmd/lockkeeper@"+version)
	require.Contains(t, c.run(t, filepath.Join(c.dir, "bin", "lockkeeper"), "version"), "lockkeeper "+version)
	c.run(t, "go", "install", lockkeeper+"/docker/cmd/ensemble@"+version)
	require.Contains(t, c.run(t, filepath.Join(c.dir, "bin", "ensemble"), "-h"), "usage: ensemble")
}

func TestModuleArchiveHoldsNoNestedModule(t *testing.T) {
	modules, err := Published(repository)
	require.NoError(t, err)
	for _, m := range modules {
		archive, err := zip.OpenReader(filepath.Join(proxy(), m.Path(), "@v", version+".zip"))
		require.NoError(t, err)
		held := map[string]bool{}
		for _, f := range archive.File {
			name, below := strings.CutPrefix(f.Name, m.Path()+"@"+version+"/")
			require.True(t, below, f.Name)
			held[name] = true
			require.False(t, path.Base(name) == "go.mod" && name != "go.mod", "%s holds %s", m.Dir, name)
		}
		require.NoError(t, archive.Close())
		require.True(t, held["go.mod"], m.Dir)
		require.True(t, held["LICENSE"], m.Dir)
	}
}

// In the workspace a module is tested with the highest version of each dependency that any module requires. Users of a
// lock have the version that the root module requires.
func TestWorkspaceSelectsRequiredZooKeeperClient(t *testing.T) {
	const client = "github.com/go-zookeeper/zk"
	modules, err := Published(repository)
	require.NoError(t, err)
	for _, r := range modules[0].File.Require {
		if r.Mod.Path == client {
			cmd := exec.CommandContext(t.Context(), "go", "list", "-m", client)
			cmd.Dir = repository
			out, err := cmd.Output()
			require.NoError(t, err)
			require.Equal(t, client+" "+r.Mod.Version+"\n", string(out))
			return
		}
	}
	require.Fail(t, "the root module does not require "+client)
}
