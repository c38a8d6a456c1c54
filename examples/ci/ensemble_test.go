// SPDX-License-Identifier: Apache-2.0

//go:build ensemble

package ci

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/docker"
)

// start starts three real servers, which stop with the test.
func start(t *testing.T) *docker.Ensemble {
	t.Helper()
	return docker.Start(t, &docker.Options{Servers: 3})
}
