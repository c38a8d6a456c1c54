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

// The credentials of a server of [RunS3], in the region us-east-1. Addr is the endpoint, over HTTP and with the bucket in the
// path.
const (
	S3AccessKey = "lockkeeper"
	S3SecretKey = "not-a-secret"
)

// The S3 server is versitygw, which stores objects as files. Since about this version it checks a condition and writes in one
// step. It is a Go program, but not a requirement of this module, so that the module does not inherit its dependencies. It is
// built separately, at this version, into the user's cache folder.
const (
	gateway        = "github.com/versity/versitygw/cmd/versitygw"
	gatewayVersion = "v1.8.0"
)

// RunS3 starts an S3 server. It uses versitygw from PATH, or builds it: the first start on a machine then takes a minute or two,
// and needs the network. The caller must Close it.
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

// S3 is RunS3 for tests. It fails tb on error, or skips it if versitygw is not installed and cannot be built, and closes the
// server when tb ends.
func S3(tb testing.TB, opts *Options) *Server {
	tb.Helper()
	s, err := RunS3(tb.Context(), opts)
	return started(tb, s, err)
}

// builtGateway returns the path of the program, which it builds if necessary.
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
	// Other processes may build it at the same time: each builds in its own folder and renames the complete program.
	own, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(own) }()
	build := exec.CommandContext(ctx, "go", "install", gateway+"@"+gatewayVersion)
	build.Dir = own // outside every module
	build.Env = append(os.Environ(), "GOBIN="+own, "GOFLAGS=")
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
