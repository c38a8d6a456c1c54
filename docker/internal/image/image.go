// SPDX-License-Identifier: Apache-2.0

// Package image finds or builds the image that servers run on in containers, and reaches the engine that has it.
package image

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

const (
	Variable = "ZK_TEST_IMAGE" // names another image

	officialImage = "zookeeper:3.9"
	localImage    = "zookeeper-local:3.8-2" // the number counts the contents of its recipe

	// localRepository is where images of other releases go, one tag each.
	localRepository = "zookeeper-local:"

	// pullBound is how long a registry may be silent. The whole image may take longer, but
	// a machine that reaches no registry must not wait that long.
	pullBound = 20 * time.Second
)

// Name returns the name of the image that servers run on: ZK_TEST_IMAGE if set,
// else zookeeper:3.9 if the engine has it or can pull it (a registry that is silent
// for 20 seconds cannot), else zookeeper-local:3.8-2 if Build has made it before.
func Name(ctx context.Context) (name string, err error) {
	cli, err := Dial(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, CloseIdle(cli)) }()
	name, _, err = Find(ctx, cli)
	return name, err
}

// Find is Name, and also returns the reason for which zookeeper:3.9 is not used.
func Find(ctx context.Context, cli client.APIClient) (name string, over, err error) {
	if name := os.Getenv(Variable); name != "" {
		if err := obtain(ctx, cli, name); err != nil {
			return "", nil, fmt.Errorf("%w (%s names it: name an image that is local or in a registry, or unset the variable)", err, Variable)
		}
		return name, nil, nil
	}
	official := obtain(ctx, cli, officialImage)
	if official == nil {
		return officialImage, nil, nil
	}
	if _, err := cli.ImageInspect(ctx, localImage); err != nil {
		return "", nil, fmt.Errorf("%w; and no %s, which `ensemble -image` builds: %w", official, localImage, err)
	}
	return localImage, official, nil
}

// Recipe has what Build builds, and the scripts that servers without an engine use.
//
//go:embed zookeeper-local
var Recipe embed.FS

// Build builds an image for machines that reach no registry, from Debian's packages and
// the runtime of the JDK on PATH, and returns its name: zookeeper-local:3.8-2, or
// zookeeper-local:RELEASE with the ZooKeeper of another release of Debian (trixie has 3.9).
// release may be empty. It takes half a minute, and needs Docker's command line, Debian's
// apt-get and a JDK of 17 or later with jlink. It installs nothing. Progress goes to w.
func Build(ctx context.Context, release string, w io.Writer) (name string, err error) {
	name = localImage
	if release != "" {
		name = localRepository + release
	}
	fail := func(err error) (string, error) { return "", fmt.Errorf("build %s: %w", name, err) }
	if strings.Trim(release, "abcdefghijklmnopqrstuvwxyz") != "" {
		return fail(fmt.Errorf("release %q is not the name of a release of Debian, such as trixie", release))
	}
	work, err := os.MkdirTemp("", "zookeeper-local-")
	if err != nil {
		return fail(err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.CopyFS(work, Recipe); err != nil {
		return fail(err)
	}
	dir := filepath.Join(work, "zookeeper-local")
	scripts, err := filepath.Glob(filepath.Join(dir, "*.sh"))
	if err != nil {
		return fail(err)
	}
	for _, script := range scripts { // embedded files are not executable
		if err := os.Chmod(script, 0o755); err != nil {
			return fail(err)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "build.sh"), name, release)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Run(); err != nil {
		return fail(err)
	}
	return name, nil
}

// obtain pulls an image unless the engine has it.
func obtain(ctx context.Context, cli client.APIClient, name string) error {
	_, err := cli.ImageInspect(ctx, name)
	if !errdefs.IsNotFound(err) {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(pullBound, func() { cancel(fmt.Errorf("the registry was silent for %v", pullBound)) })
	defer silence.Stop()
	progress, err := cli.ImagePull(ctx, name, client.ImagePullOptions{})
	if err == nil {
		buf := make([]byte, 4<<10)
		for err == nil {
			silence.Reset(pullBound)
			_, err = progress.Read(buf)
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		err = errors.Join(err, progress.Close())
	}
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("pull image %s: %w", name, err)
	}
	// The stream of a failed pull ends like the stream of a successful one.
	if _, err := cli.ImageInspect(ctx, name); err != nil {
		return fmt.Errorf("pull image %s: %w", name, err)
	}
	return nil
}
