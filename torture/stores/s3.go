// SPDX-License-Identifier: Apache-2.0

package stores

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// What signs the requests to a server of [RunS3], in the region us-east-1. Addr is the endpoint, over HTTP and with the
// bucket in the path.
const (
	S3AccessKey = "lockkeeper"
	S3SecretKey = "not-a-secret"
)

// The server of S3 is versitygw, which keeps objects as files. It has checked conditions and written as one step since
// about this version. It is a Go program, and yet no requirement of this module: what it needs would be everybody's who
// takes an ensemble from here. So it is built on its own, by the version that stands here, and kept among the user's
// caches.
const (
	gateway        = "github.com/versity/versitygw/cmd/versitygw"
	gatewayVersion = "v1.8.0"
)

// RunS3 starts a server of S3. The first start on a machine builds it, which takes a minute or two and the network; one
// that is in PATH is taken as it is. The caller must Close it.
func RunS3(ctx context.Context, opts *Options) (*Server, error) {
	program, err := builtGateway(ctx)
	if err != nil {
		return nil, fmt.Errorf("start s3: %w", err)
	}
	s, err := prepared("s3")
	if err != nil {
		return nil, fmt.Errorf("start s3: %w", err)
	}
	s.as = nil // the unprivileged user cannot read the user's caches, and the server can run as root
	health := "/serving-for-" + filepath.Base(s.dir)
	s.argv = append([]string{
		program, "--port", s.Addr, "--access", S3AccessKey, "--secret", S3SecretKey,
		"--health", health, "--keep-alive", "--quiet",
	}, opts.args()...)
	s.argv = append(s.argv, "posix", s.data())
	s.ready = func(ctx context.Context) error { return answersOK(ctx, "http://"+s.Addr+health) }
	return first(ctx, s)
}

// S3 is RunS3 for tests: it fails tb on error, or skips it where there is no server and none can be built, and closes the
// server when tb ends.
func S3(tb testing.TB, opts *Options) *Server {
	tb.Helper()
	s, err := RunS3(tb.Context(), opts)
	return started(tb, s, err)
}

// builtGateway returns where the program is, and builds it if it is not there yet.
func builtGateway(ctx context.Context) (string, error) {
	if file, err := exec.LookPath("versitygw"); err == nil {
		return file, nil
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(caches, "lockkeeper")
	file := filepath.Join(dir, "versitygw-"+gatewayVersion)
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Others may be building it, too: each in a folder of its own, and the name is there when the program is whole.
	own, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(own) }()
	build := exec.CommandContext(ctx, "go", "install", gateway+"@"+gatewayVersion)
	build.Dir = own // of no module
	build.Env = append(os.Environ(), "GOBIN="+own, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("versitygw is %w (go install %s@%s: %w)\n%s", ErrNotInstalled, gateway, gatewayVersion, err, out)
	}
	return file, os.Rename(filepath.Join(own, "versitygw"), file)
}

func answersOK(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
