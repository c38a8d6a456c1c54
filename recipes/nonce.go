// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"crypto/rand"
	"encoding/base32"
	"strconv"
	"strings"
	"sync/atomic"
)

// nonces generates the names of attempts, which are unique across processes.
type nonces struct {
	process string // drawn at random
	last    atomic.Uint64
}

func newNonces() *nonces { return &nonces{process: rand.Text()} }

func (n *nonces) next() string { return n.process + strconv.FormatUint(n.last.Add(1), 36) }

// shortNonce returns 8 random base-32 digits.
func shortNonce() string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // it never returns an error
	return strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))
}
