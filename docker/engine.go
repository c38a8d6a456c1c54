// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"fmt"
	"net/url"
	"os"
	"runtime"

	"github.com/containerd/errdefs"
	tc "github.com/testcontainers/testcontainers-go"
)

// ownerLabel is on every container and network that this package creates; its value
// is the process that created it.
const ownerLabel = "com.github.lockkeeper.owner"

// engine runs servers in containers.
type engine struct {
	cli   *tc.DockerClient
	image string
}

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
