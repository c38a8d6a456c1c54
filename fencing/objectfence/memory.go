// SPDX-License-Identifier: Apache-2.0

package objectfence

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"sync"
)

// Memory is a [Store] in memory, for tests of code that writes through a guard. As with S3, its versions are hashes of the
// bodies. The zero value is empty and ready to use; it must not be copied after its first use.
type Memory struct {
	mu      sync.Mutex
	objects map[string][]byte // guarded by mu
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, key string) (Object, error) {
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	body, ok := m.objects[key]
	if !ok {
		return Object{}, ErrNotFound
	}
	return Object{Body: bytes.Clone(body), Version: version(body)}, nil
}

// Put implements [Store].
func (m *Memory) Put(ctx context.Context, key string, body []byte, replaces string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	current := ""
	if body, ok := m.objects[key]; ok {
		current = version(body)
	}
	if current != replaces {
		return ErrPrecondition
	}
	if m.objects == nil {
		m.objects = map[string][]byte{}
	}
	m.objects[key] = bytes.Clone(body)
	return nil
}

func version(body []byte) string { return fmt.Sprintf("%x", md5.Sum(body)) }
