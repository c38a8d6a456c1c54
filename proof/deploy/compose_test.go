// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
)

// engineBound bounds the first answer of the container engine: a broken one accepts connections and never answers.
const engineBound = 5 * time.Second

// A project is the services of compose.yaml, under separate names.
type project struct {
	t       *testing.T
	command []string // of Compose
	env     []string
}

// requireEngine ends a test if no container engine answers. ZK_TEST_BACKEND=java says that there is none.
func requireEngine(t *testing.T) {
	t.Helper()
	if os.Getenv("ZK_TEST_BACKEND") == "java" {
		t.Skip("not run: ZK_TEST_BACKEND is java")
	}
	ctx, cancel := context.WithTimeout(t.Context(), engineBound)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "docker", "version").CombinedOutput(); err != nil {
		need.Lacking(t, "no container engine answers, and ZK_TEST_BACKEND is not java: %v: %s", err, out)
	}
}

// compose returns the command of Compose, which is a plugin of Docker's command or a program.
func compose(t *testing.T) []string {
	t.Helper()
	for _, command := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if exec.CommandContext(t.Context(), command[0], append(command[1:], "version")...).Run() == nil {
			return command
		}
	}
	need.Lacking(t, "Docker Compose is not installed")
	return nil
}

// serverImage returns an image of ZooKeeper that the engine has.
func serverImage(t *testing.T) string {
	t.Helper()
	candidates := []string{"zookeeper:3.9", "zookeeper-local:3.8-2"}
	if name := os.Getenv("ZK_TEST_IMAGE"); name != "" {
		candidates = []string{name}
	}
	for _, name := range candidates {
		if exec.CommandContext(t.Context(), "docker", "image", "inspect", name).Run() == nil {
			return name
		}
	}
	need.Lacking(t, "the engine has no image of ZooKeeper: `make image` prepares one")
	return ""
}

// buildImage builds the image of the service under a separate name, and removes it at the end of the test.
func buildImage(t *testing.T, name string) {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.Link(binary, filepath.Join(folder, "lockkeeper")))
	output(t, nil, "docker", "build", "-q", "-f", "Dockerfile", "-t", name, folder)
	t.Cleanup(func() { output(t, nil, "docker", "image", "rm", name) })
}

// run runs a command of Compose and returns what it prints.
func (p *project) run(args ...string) string {
	p.t.Helper()
	return strings.TrimSpace(output(p.t, p.env, p.command[0], append(p.command[1:len(p.command):len(p.command)], args...)...))
}

// A container runs one replica.
type container struct {
	t   *testing.T
	id  string
	url string // on this machine
}

func (p *project) container(service string) *container {
	p.t.Helper()
	c := &container{t: p.t, id: p.run("ps", "-q", service)}
	address, _, _ := strings.Cut(c.docker("port", c.id, "8080"), "\n")
	c.url = "http://" + address
	return c
}

// docker runs a command of Docker and returns what it prints.
func (c *container) docker(args ...string) string {
	c.t.Helper()
	return strings.TrimSpace(output(c.t, nil, "docker", args...))
}

// start starts the ensemble and both replicas, and waits until the replicas are ready.
func start(t *testing.T) (first, second *container) {
	t.Helper()
	requireEngine(t)
	name := strings.ToLower("lockkeeper-test-" + tokenKey()[:8])
	p := &project{t: t, command: append(compose(t), "-p", name, "-f", "compose.yaml")}
	credentials := t.TempDir()
	write(t, credentials, "principals.json", principals())
	write(t, credentials, "token-keys", tokenKey())
	p.env = []string{
		"LOCKKEEPER_IMAGE=" + name, "ZK_TEST_IMAGE=" + serverImage(t), "LOCKKEEPER_CREDENTIALS=" + credentials,
		"LOCKKEEPER_PORT1=", "LOCKKEEPER_PORT2=", // free ones
	}
	buildImage(t, name)
	t.Cleanup(func() {
		defer p.run("down", "-v", "--timeout", "1")
		if t.Failed() {
			t.Log(p.run("logs", "--no-color", "lockkeeper1", "lockkeeper2"))
		}
	})
	p.run("up", "-d", "zk1", "zk2", "zk3", "lockkeeper1", "lockkeeper2")
	first, second = p.container("lockkeeper1"), p.container("lockkeeper2")
	client := &http.Client{Timeout: 10 * time.Second}
	for _, replica := range []*container{first, second} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			status, answer := send(c, client, http.MethodGet, replica.url+"/readyz", "")
			require.Equal(c, http.StatusOK, status, answer)
		}, 3*time.Minute, 100*time.Millisecond) // three Java processes start
	}
	return first, second
}

func TestReplicaInContainerHasTimeToStop(t *testing.T) {
	content := string(read(t, "compose.yaml"))
	_, replica, found := strings.Cut(content, "\nx-replica: &replica\n")
	require.True(t, found)
	replica, _, _ = strings.Cut(replica, "\n\n")
	setting := regexp.MustCompile(`(?m)^  stop_grace_period: (.*)$`).FindStringSubmatch(replica)
	require.NotNil(t, setting)
	grace, err := time.ParseDuration(setting[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, grace, stopBound)
	require.Equal(t, 2, strings.Count(content, "<<: *replica"), "both replicas have the setting")
}

// It waits for three Java processes most of the time, during which the other tests with processes run.
func TestLeaseOutlivesReplicaInContainer(t *testing.T) {
	t.Parallel()
	first, second := start(t)
	require.Equal(t, "65532:65532 true", first.docker("inspect", "--format", "{{.Config.User}} {{.HostConfig.ReadonlyRootfs}}", first.id))

	client := &http.Client{Timeout: time.Minute}
	status, body := send(t, client, http.MethodPost, first.url+"/v1/locks/team/orders/acquire", `{"ownerId": "a", "requestId": "1", "ttlMillis": 600000}`)
	require.Equal(t, http.StatusOK, status, body)
	granted := lease(t, body)
	require.Contains(t, first.docker("logs", first.id), `"action":"acquire"`, "the audit is on standard output")

	first.docker("kill", first.id)
	require.Equal(t, "false", first.docker("inspect", "--format", "{{.State.Running}}", first.id))

	proof, err := json.Marshal(map[string]string{"ownerId": "a", "lockToken": granted.LockToken})
	require.NoError(t, err)
	status, body = send(t, client, http.MethodPost, second.url+"/v1/locks/team/orders/renew", string(proof))
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, granted.FencingToken, lease(t, body).FencingToken)
	status, body = send(t, client, http.MethodPost, second.url+"/v1/locks/team/orders/acquire", `{"ownerId": "b", "requestId": "2"}`)
	require.Equal(t, http.StatusConflict, status, body)

	second.docker("stop", "--time", "20", second.id)
	require.Equal(t, "0", second.docker("inspect", "--format", "{{.State.ExitCode}}", second.id), "the binary handles the signal as process 1")
}

// A grant is the part of an answer that the test uses.
type grant struct{ LockToken, FencingToken string }

func lease(t *testing.T, body string) grant {
	t.Helper()
	var g grant
	require.NoError(t, json.Unmarshal([]byte(body), &g))
	require.NotEmpty(t, g.LockToken)
	require.NotEmpty(t, g.FencingToken)
	return g
}
