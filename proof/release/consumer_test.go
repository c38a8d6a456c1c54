// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
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
	return consumer{dir: t.TempDir(), env: append(
		os.Environ(),
		"GOPROXY="+strings.Join([]string{url(proxy()), url(filepath.Join(machine.cache, "cache", "download")), machine.proxy}, ","),
		"GOENV=off", "GOPRIVATE=", "GONOPROXY=", // whatever this machine fetches without a proxy
		"GOSUMDB=off", // the modules of the working tree are in no checksum database
		"GOWORK=",
		"GOBIN="+programs(), // one for all: the go command links an installed program only once
		// A module cache apart from this machine's, which must not take the working tree for v0.1.0.
		"GOMODCACHE="+moduleCache(),
		// With -trimpath a package in a temporary folder is compiled once, and not in each test run. The programs need no symbols.
		"GOFLAGS=-modcacherw -trimpath -ldflags=-s",
	)}
}

// shared is a folder for all tests with a proxy, which has the modules of the working tree, a module cache, and installed programs.
var shared string

func proxy() string       { return filepath.Join(shared, "proxy") }
func moduleCache() string { return filepath.Join(shared, "mod") }
func programs() string    { return filepath.Join(shared, "bin") }

// machine contains settings of the go command on this machine.
var machine struct{ cache, proxy string }

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
		err = prepare(context.Background())
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

func prepare(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	machine.cache, machine.proxy, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	machine.cache, machine.proxy = strings.TrimSpace(machine.cache), strings.TrimSpace(machine.proxy)
	if err := errors.Join(shareModules(""), shareModules(filepath.Join("cache", "download"))); err != nil {
		return err
	}
	return Publish(ctx, repository, version, proxy())
}

// shareModules links modules of others in a folder of this machine's module cache into the one of the tests: the go command would
// extract hundreds of them again. Folders that lead to this repository's modules are made, and not linked.
func shareModules(folder string) error {
	if runtime.GOOS == "windows" {
		return nil // links need a privilege
	}
	own := map[string]bool{path.Dir(path.Dir(lockkeeper)): true, path.Dir(lockkeeper): true}
	var share func(below string) error
	share = func(below string) error {
		from, to := filepath.Join(machine.cache, folder, below), filepath.Join(moduleCache(), folder, below)
		entries, err := os.ReadDir(from)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err := errors.Join(err, os.MkdirAll(to, 0o755)); err != nil {
			return err
		}
		for _, e := range entries {
			name := filepath.Join(below, e.Name())
			switch {
			case own[name]:
				err = share(name)
			case strings.HasPrefix(name, lockkeeper) || name == "cache" || name == "sumdb":
			default:
				err = os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return share("")
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

// compile has the consumer require each module at v0.1.0, compiles it and its tests, and returns the modules that it imports packages
// of. It links nothing, which the newcomer does, and does not vet: all packages below would be compiled and analysed again, as
// they are in another module cache.
func (c consumer) compile(t *testing.T, modules ...string) (imported map[string]bool) {
	t.Helper()
	c.run(t, "go", "mod", "init", "example.com/consumer")
	get := []string{"get"}
	for _, m := range modules {
		get = append(get, m+"@"+version)
	}
	c.run(t, "go", get...)
	c.run(t, "go", "mod", "tidy")
	listed := c.run(t, "go", "list", "-export", "-deps", "-test", "-f", "{{with .Module}}{{.Path}}@{{.Version}}{{with .Replace}} => {{.}}{{end}}{{end}}", "./...")
	require.NotContains(t, listed, "=>")
	imported = map[string]bool{}
	versions := map[string]bool{}
	for m := range strings.FieldsSeq(listed) {
		versions[m] = true
		name, _, _ := strings.Cut(m, "@")
		imported[name] = true
	}
	for _, m := range modules {
		require.True(t, versions[m+"@"+version], "%s %s: %v", m, version, versions)
	}
	return imported
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
	imported := c.compile(t, lockkeeper)
	require.Equal(t, map[string]bool{"example.com/consumer": true, lockkeeper: true, "github.com/go-zookeeper/zk": true}, imported)
}

func TestConsumerOfDockerAloneBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "consumer_test.go", usesDocker)
	c.compile(t, lockkeeper+"/docker")
}

func TestConsumerOfRootAndDockerBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesRoot)
	c.write(t, "consumer_test.go", usesDocker)
	c.compile(t, lockkeeper, lockkeeper+"/docker")
}

func TestConsumerOfMetricAdaptersBuilds(t *testing.T) {
	c := newConsumer(t)
	c.write(t, "main.go", usesTraces)
	c.compile(t, lockkeeper+"/trace/promtrace", lockkeeper+"/trace/oteltrace")
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
	c.compile(t, lockkeeper+"/recipes/kerberos")
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
	require.Contains(t, c.run(t, filepath.Join(programs(), "lockkeeper"), "version"), "lockkeeper "+version)
	c.run(t, "go", "install", lockkeeper+"/docker/cmd/ensemble@"+version)
	require.Contains(t, c.run(t, filepath.Join(programs(), "ensemble"), "-h"), "usage: ensemble")
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
