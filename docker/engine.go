// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
)

// ownerLabel is on every container and network that this package creates; its value
// is the process that created it.
const ownerLabel = "com.github.lockkeeper.owner"

// engineBound bounds an engine's first answer. An engine that accepts connections and
// never answers is a known state of a broken machine.
const engineBound = 5 * time.Second

// engine runs servers in containers.
type engine struct {
	cli   *tc.DockerClient
	image string
}

// dial finds an engine as testcontainers does and makes sure that it answers.
func dial(ctx context.Context) (*tc.DockerClient, error) {
	// Ryuk, the container with which testcontainers removes leftovers, needs an image, so
	// where no registry answers testcontainers would start nothing. It is disabled unless
	// the user has set the variable: the next run removes the leftovers of a killed one. The
	// value must be "true": "1" means no.
	if _, set := os.LookupEnv("TESTCONTAINERS_RYUK_DISABLED"); !set {
		if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
			return nil, fmt.Errorf("disable Ryuk: %w", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, engineBound, fmt.Errorf("no answer in %v", engineBound))
	defer cancel()
	cli, err := tc.NewDockerClientWithOpts(ctx)
	if err == nil {
		_, err = cli.Ping(ctx, client.PingOptions{})
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("container engine: %w", err)
	}
	return cli, nil
}

// closeIdle closes the idle connections to the engine, whose goroutines would look like a leak
// to a test that counts them. The client can be used again.
func closeIdle(cli *tc.DockerClient) error { return cli.Close() }

func (e *engine) describe() string { return "containers of " + e.image }

// gateway returns the host whose ports clients must use if the containers' addresses are not
// reachable, because the engine runs on another or in a virtual machine; otherwise "". Docker
// Desktop on Linux cannot be distinguished from a plain engine, hence the variable. The host
// that testcontainers determines is not used: in a container it may be the machine's router.
func (e *engine) gateway() (string, error) {
	at, err := url.Parse(e.cli.DaemonHost())
	if err != nil {
		return "", fmt.Errorf("container engine: %w", err)
	}
	switch {
	case at.Scheme != "unix" && at.Scheme != "npipe":
		return at.Hostname(), nil
	case runtime.GOOS != "linux" || os.Getenv("ZK_TEST_MAPPED") != "":
		return "127.0.0.1", nil
	}
	return "", nil
}

// unlessGone ignores the errors that two simultaneous sweeps cause each other: the object is gone,
// or (a conflict) about to be.
func unlessGone(err error) error {
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
		return nil
	}
	return err
}
