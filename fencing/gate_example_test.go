// SPDX-License-Identifier: Apache-2.0

package fencing_test

import (
	"errors"
	"fmt"
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Ledger is a resource that several processes write, one at a time unless something fails.
type Ledger struct {
	mu    sync.Mutex
	gate  fencing.Gate // checked under mu, so that no newer write comes between the check and the write
	entry string       // guarded by mu
}

// Put writes entry, unless a newer token has been admitted.
func (l *Ledger) Put(token fencing.Token, entry string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.gate.Admit(token); err != nil {
		return fmt.Errorf("ledger: put: %w", err)
	}
	l.entry = entry
	return nil
}

// A holder is paused and loses its lock without detecting it. Another client is granted the lock, with a greater token, and
// writes. When the first holder resumes and writes, the ledger refuses its stale write.
func ExampleGate() {
	var ledger Ledger
	first, second := fencing.Token(4294967311), fencing.Token(4294967330)

	fmt.Println(ledger.Put(first, "opened by the first"))
	fmt.Println(ledger.Put(second, "corrected by the second"))

	err := ledger.Put(first, "closed by the first")
	fmt.Println(err)
	fmt.Println(errors.Is(err, fencing.ErrStale))
	fmt.Println(ledger.entry)
	// Output:
	// <nil>
	// <nil>
	// ledger: put: fencing: token 4294967311 is stale: 4294967330 has been admitted
	// true
	// corrected by the second
}
