// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker/internal/image"
	"github.com/lockkeeper/lockkeeper/docker/internal/need"
)

// TestChild runs in another process, which the tests below start and end. It prints its server's
// address, and ends when its standard input is closed.
func TestChild(t *testing.T) {
	backend, ok := os.LookupEnv("LOCKKEEPER_TEST_CHILD")
	if !ok {
		t.Skip("only for the tests that start it")
	}
	if ci := os.Getenv("LOCKKEEPER_TEST_CI"); ci != "" {
		t.Setenv("CI", ci) // the main function has unset it
	}
	if os.Getenv("LOCKKEEPER_TEST_NO_ENGINE") != "" { // an engine of this machine must not be found
		picked = func() (choice, error) {
			none := func(context.Context) (choice, error) { return choice{}, errors.New("hidden by the test") }
			return pick(t.Context(), os.Getenv, sources{engine: none, java: findJava})
		}
	}
	e := Start(t, &Options{Backend: backend})
	fmt.Printf("serving %s\n", e.Addrs()[0])
	_, err := io.Copy(io.Discard, os.Stdin)
	require.NoError(t, err)
}

// child returns a command that runs TestChild.
func child(t *testing.T, backend string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(append(os.Environ(), "LOCKKEEPER_TEST_CHILD="+backend), env...)
	cmd.WaitDelay = time.Second
	return cmd
}

func TestMissingEnginesAreReported(t *testing.T) {
	nothing := []string{"LOCKKEEPER_TEST_NO_ENGINE=1", "ZK_TEST_IMAGE=", "PATH=" + t.TempDir()}
	out, err := child(t, "", nothing...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- SKIP: TestChild")
	require.Contains(t, string(out), "not run: start ZooKeeper: nothing to run ZooKeeper with")

	out, err = child(t, "", append(nothing, "LOCKKEEPER_TEST_CI=true")...).CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "--- FAIL: TestChild")
	require.Contains(t, string(out), "nothing to run ZooKeeper with")
}

func TestMissingImageFailsTestsAndNamesTheRemedy(t *testing.T) {
	const image = "registry.invalid/zookeeper:none"
	out, err := child(t, "", "ZK_TEST_IMAGE="+image).CombinedOutput()
	require.Error(t, err, "%s", out)
	require.Contains(t, string(out), "--- FAIL: TestChild", "it is not skipped, CI or not")
	require.Contains(t, string(out), image)
	require.Contains(t, string(out), "name an image that is local or in a registry, or unset the variable")
}

func TestPickPrefersTheNamedEngineThenTheFirstAvailable(t *testing.T) {
	there := func(name string) (choice, error) { return choice{backend: &engine{image: name}}, nil }
	gone := func(name string) (choice, error) { return choice{}, errors.New("no " + name) }
	for name, of := range map[string]struct {
		env          map[string]string
		engine, java func(string) (choice, error)
		want         string // what is picked, or the error
		over         string
	}{
		"both":                       {nil, there, there, "containers of engine", ""},
		"Java alone":                 {nil, gone, there, "containers of Java", "no engine"},
		"none":                       {nil, gone, gone, "nothing to run ZooKeeper with: ZK_SERVERS is not set; no engine: no engine; no Java: no Java", ""},
		"an image":                   {map[string]string{"ZK_TEST_IMAGE": "zk:1"}, there, there, "containers of engine", ""},
		"an image without an engine": {map[string]string{"ZK_TEST_IMAGE": "zk:1"}, gone, there, `ZK_TEST_IMAGE="zk:1" asks for containers, so Java processes are not tried: no engine`, ""},
		"an image for Java": {
			map[string]string{"ZK_TEST_IMAGE": "zk:1", "ZK_TEST_BACKEND": "java"},
			there, there,
			`ZK_TEST_BACKEND=java and ZK_TEST_IMAGE="zk:1": Java processes have no image: unset one of them`,
			"",
		},
		"Java by name":      {map[string]string{"ZK_TEST_BACKEND": "java"}, there, there, "containers of Java", ""},
		"an engine by name": {map[string]string{"ZK_TEST_BACKEND": "docker"}, gone, there, "no engine", ""},
		"no backend":        {map[string]string{"ZK_TEST_BACKEND": "podman"}, there, there, `ZK_TEST_BACKEND="podman": must be docker or java`, ""},
		"servers":           {map[string]string{"ZK_SERVERS": "zk1"}, there, there, `ZK_SERVERS="zk1"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := pick(t.Context(), func(key string) string { return of.env[key] }, sources{
				engine: func(context.Context) (choice, error) { return of.engine("engine") },
				java:   func(context.Context, func(string, ...any)) (choice, error) { return of.java("Java") },
			})
			if got.backend == nil {
				require.ErrorContains(t, err, of.want)
				require.Equal(t, name == "none", errors.Is(err, ErrNoBackend), "only then a test may be skipped")
				return
			}
			require.NoError(t, err)
			require.Equal(t, of.want, got.describe())
			if of.over != "" {
				require.EqualError(t, got.over, of.over)
				require.Equal(t, "tests: "+of.want+"\ntests: passed over: "+of.over+"\n", got.report("tests"))
			}
		})
	}
}

func TestNextRunRemovesLeftoversOfKilledRun(t *testing.T) {
	t.Parallel()
	for _, backend := range []string{"docker", "java"} {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()
			ctx := bounded(t)
			p := &plan{backend: backend, logf: t.Logf}
			_, err := choose(ctx, p)
			need.Backend(t, backend, err)
			cmd := child(t, backend)
			stdin, err := cmd.StdinPipe() // it stays open, so that the child does not end
			require.NoError(t, err)
			defer func() { _ = stdin.Close() }() // its reader has ended
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var addr string
			for lines := bufio.NewScanner(stdout); addr == "" && lines.Scan(); {
				if line, ok := strings.CutPrefix(lines.Text(), "serving "); ok {
					addr = line
				}
			}
			require.NotEmpty(t, addr)

			_, err = choose(ctx, p)
			require.NoError(t, err)
			require.NoError(t, externalServer(addr).WaitServing(ctx), "a living run keeps what it has")
			require.NotEmpty(t, belongings(ctx, t, cmd.Process.Pid))

			require.NoError(t, cmd.Process.Kill())
			require.Error(t, cmd.Wait())
			_, err = choose(ctx, p)
			require.NoError(t, err)
			require.NoError(t, poll(ctx, func(ctx context.Context) error {
				if left := belongings(ctx, t, cmd.Process.Pid); len(left) > 0 {
					return fmt.Errorf("left: %q", left)
				}
				return nil
			}))
			_, err = externalServer(addr).probe(ctx)
			require.Error(t, err)
		})
	}
}

func externalServer(addr string) *Server { return &Server{id: 1, node: externalNode(addr)} }

// belongings lists what a process has made on this machine.
func belongings(ctx context.Context, t *testing.T, pid int) []string {
	t.Helper()
	var found []string
	process := fmt.Sprintf("%d-", pid)
	for _, pattern := range []string{"/run/netns/" + namespacePrefix, filepath.Join(os.TempDir(), folderPrefix)} {
		paths, err := filepath.Glob(pattern + process + "*")
		require.NoError(t, err)
		found = append(found, paths...)
	}
	cli, err := image.Dial(ctx)
	if err != nil {
		return found
	}
	defer func() { require.NoError(t, image.CloseIdle(cli)) }()
	mine := make(client.Filters).Add("label", ownerLabel)
	owned := func(labels map[string]string) bool {
		return strings.HasPrefix(labels[ownerLabel], self().host+"/"+process)
	}
	containers, err := cli.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: mine})
	require.NoError(t, err)
	for _, c := range containers.Items {
		if owned(c.Labels) {
			found = append(found, c.ID)
		}
	}
	networks, err := cli.NetworkList(ctx, client.NetworkListOptions{Filters: mine})
	require.NoError(t, err)
	for _, n := range networks.Items {
		if owned(n.Labels) {
			found = append(found, n.Name)
		}
	}
	return found
}

func TestClosedEnsembleLeavesNothing(t *testing.T) {
	for _, backend := range []string{"docker", "java"} {
		t.Run(backend, func(t *testing.T) {
			ctx := bounded(t)
			_, err := choose(ctx, &plan{backend: backend, logf: t.Logf})
			need.Backend(t, backend, err)
			e := Start(t, &Options{Backend: backend})
			require.NotEmpty(t, belongings(ctx, t, os.Getpid()))
			require.NoError(t, e.Close())
			require.NoError(t, e.Close(), "an ensemble may be closed again")
			require.Empty(t, belongings(ctx, t, os.Getpid()))
		})
	}
}

func TestFailedStartShowsTheServersLogAndLeavesNothing(t *testing.T) {
	for _, backend := range []string{"docker", "java"} {
		t.Run(backend, func(t *testing.T) {
			ctx := bounded(t)
			_, err := choose(ctx, &plan{backend: backend, logf: t.Logf})
			need.Backend(t, backend, err)
			begin := time.Now()
			_, err = Run(ctx, &Options{Servers: 3, Backend: backend, Config: []string{"electionAlg=nonsense"}})
			require.ErrorContains(t, err, "Invalid config")
			require.ErrorContains(t, err, "NumberFormatException")
			require.Less(t, time.Since(begin), startBound, "a server that has exited is not waited for")
			require.Empty(t, belongings(ctx, t, os.Getpid()))
		})
	}
}

func TestServersOfEnvironmentAreUsedUnchanged(t *testing.T) {
	ctx := bounded(t)
	b, err := externalServers("zk1:2181, zk2:2181")
	require.NoError(t, err)
	nodes, remove, err := b.launch(ctx, &plan{})
	require.NoError(t, err)
	require.NoError(t, remove())
	require.Len(t, nodes, 2)
	require.Equal(t, "zk2:2181", nodes[1].addr())
	s := &Server{id: 1, node: nodes[0]}
	for _, fault := range []func(context.Context) error{s.Kill, s.Start, s.Pause, s.Unpause, s.Partition, s.Isolate, s.Heal} {
		require.ErrorIs(t, fault(ctx), ErrUnsupported)
	}
	_, _, err = b.launch(ctx, &plan{servers: 3})
	require.ErrorIs(t, err, ErrUnsupported)
	_, _, err = b.launch(ctx, &plan{counters: map[string]int32{"/a": 1}})
	require.ErrorIs(t, err, ErrUnsupported)
}

func TestClassPathNamesFilesForServersInOtherFolders(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	require.NoError(t, os.Mkdir("lib", 0o755))
	for _, name := range []string{"a.jar", "b.jar", "readme"} {
		require.NoError(t, os.WriteFile(filepath.Join("lib", name), nil, 0o600))
	}
	jars := filepath.Join(dir, "lib", "a.jar") + ":" + filepath.Join(dir, "lib", "b.jar")
	t.Setenv("ZOOKEEPER_CLASSPATH", "conf:lib/*:/opt/c.jar")
	found, err := findJars(t.Context(), t.Logf)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "conf")+":"+jars+":/opt/c.jar", found)
	t.Setenv("ZOOKEEPER_CLASSPATH", "")
	t.Setenv("ZK_JARS", "lib")
	found, err = findJars(t.Context(), t.Logf)
	require.NoError(t, err)
	require.Equal(t, jars, found)
	t.Setenv("ZK_JARS", "missing")
	_, err = findJars(t.Context(), t.Logf)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestWithoutNamespacesServersShareTheLoopback(t *testing.T) {
	ctx := bounded(t)
	_, err := findJava(ctx, t.Logf)
	need.Backend(t, "java", err)
	java, err := exec.LookPath("java")
	require.NoError(t, err)
	java, err = filepath.EvalSymlinks(java)
	require.NoError(t, err)
	t.Setenv("PATH", filepath.Dir(java)) // and so without the ip command
	e := Start(t, &Options{Servers: 3, Backend: "java"})
	for _, addr := range e.Addrs() {
		require.True(t, strings.HasPrefix(addr, "127.0.0.1:"), addr)
	}
	leader, err := e.Leader(ctx)
	require.NoError(t, err)
	err = leader.Isolate(ctx)
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorContains(t, err, `"ip"`)
	require.ErrorIs(t, leader.Partition(ctx), ErrUnsupported)
	require.NoError(t, leader.Kill(ctx))
	followers, err := e.Followers(ctx)
	require.NoError(t, err)
	require.Len(t, followers, 1, "also if the new leader serves before it")
	waitNewLeader(ctx, t, e, leader)
	require.NoError(t, leader.Start(ctx))
	require.NoError(t, e.WaitServing(ctx))
}

func TestMappedPortsOutliveRestart(t *testing.T) {
	ctx := bounded(t)
	t.Setenv("ZK_TEST_MAPPED", "1")
	_, err := findEngine(ctx)
	need.Backend(t, "docker", err)
	e := Start(t, &Options{Backend: "docker"})
	addr := e.Addrs()[0]
	require.True(t, strings.HasPrefix(addr, "127.0.0.1:"), addr)
	s := e.Servers()[0]
	require.NoError(t, s.Kill(ctx))
	require.NoError(t, s.Start(ctx))
	require.NoError(t, s.WaitServing(ctx))
	require.NoError(t, s.Partition(ctx))
	_, err = s.Mode(ctx)
	require.Error(t, err)
	require.NoError(t, s.Heal(ctx))
	require.NoError(t, s.WaitServing(ctx))
	require.Equal(t, addr, s.Addr())
}
