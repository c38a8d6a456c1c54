// SPDX-License-Identifier: Apache-2.0

package sqlfence

import (
	"bytes"
	"database/sql"
	"runtime"
	"slices"
	"sync"
)

// running contains the transactions of this package that run now: for each goroutine with one, on each database, the fences
// that it holds or waits for.
//
// A function that calls Do would wait for its own caller's transaction, for ever or until ctx ends, and no database detects
// that as a deadlock. The function gets no context from Do that could identify a nested call, so the goroutine identifies
// it. The goroutine is used for nothing else: a call that is not detected waits, as it would without this.
var running = struct {
	sync.Mutex
	held map[caller][]string // guarded by the mutex
}{held: map[caller][]string{}}

type caller struct {
	db        *sql.DB
	goroutine string
}

// everything is what a transaction holds in SQLite, which has one writer. No table has this name.
const everything = ""

// enter records that the caller's goroutine requests the fence of resource, until end is called. It returns [ErrNested] if
// the request would wait for a transaction of the same goroutine.
func (g *Guard) enter(resource string) (end func(), err error) {
	wanted := g.table + " " + resource
	if g.dialect == SQLite {
		wanted = everything
	}
	c := caller{g.db, goroutine()}
	running.Lock()
	defer running.Unlock()
	held := running.held[c]
	if slices.Contains(held, wanted) || exhausted(g.db, held) {
		return nil, ErrNested
	}
	running.held[c] = append(held, wanted)
	return func() {
		running.Lock()
		defer running.Unlock()
		if running.held[c] = held; len(held) == 0 {
			delete(running.held, c)
		}
	}, nil
}

// nested returns [ErrNested] if the caller's goroutine would wait for itself: for a connection or, if write, for SQLite's
// writer.
func nested(db *sql.DB, write bool) error {
	running.Lock()
	defer running.Unlock()
	held := running.held[caller{db, goroutine()}]
	if exhausted(db, held) || write && slices.Contains(held, everything) {
		return ErrNested
	}
	return nil
}

// exhausted reports whether a goroutine that holds these has all connections that db may open.
func exhausted(db *sql.DB, held []string) bool {
	limit := db.Stats().MaxOpenConnections
	return 0 < limit && limit <= len(held)
}

// goroutine returns the number of the calling goroutine, from the first line of its stack trace: "goroutine 7 [running]:".
func goroutine() string {
	var trace [40]byte
	words := bytes.Fields(trace[:runtime.Stack(trace[:], false)])
	return string(words[1])
}
