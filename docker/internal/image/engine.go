// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/moby/moby/client"
	tc "github.com/testcontainers/testcontainers-go"
)

// engineBound bounds an engine's first answer. An engine that accepts connections and
// never answers is a known state of a broken machine.
const engineBound = 5 * time.Second

// Dial finds an engine as testcontainers does and makes sure that it answers.
func Dial(ctx context.Context) (*tc.DockerClient, error) {
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

// CloseIdle closes the idle connections to the engine, whose goroutines would look like a leak
// to a test that counts them. The client can be used again.
func CloseIdle(cli *tc.DockerClient) error { return cli.Close() }
