// SPDX-License-Identifier: Apache-2.0

//go:build !ensemble

package ci

import (
	"testing"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// start starts three servers in the test process, which stop with the test.
func start(t *testing.T) *zktest.Ensemble {
	t.Helper()
	return zktest.Start(t, &zktest.Options{Servers: 3})
}
