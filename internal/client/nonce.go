// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/rand"
	"strconv"
	"sync/atomic"
)

// nonces generates the names of attempts, which are unique across processes.
type nonces struct {
	process string // drawn at random
	last    atomic.Uint64
}

func newNonces() *nonces { return &nonces{process: rand.Text()} }

func (n *nonces) next() string { return n.process + strconv.FormatUint(n.last.Add(1), 36) }
