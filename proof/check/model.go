// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	"github.com/anishathalye/porcupine"

	"github.com/lockkeeper/lockkeeper/proof/history"
)

// The operations on a lock and on the register behind it.
type operation int

const (
	acquire   operation = iota // a contender acquires the lock
	share                      // a reader acquires it
	downgrade                  // a writer becomes a reader, unless it has ceased to hold the lock
	yield                      // the contender ceases to hold it
	accept                     // the register accepts a write
	reject                     // the register rejects a write
)

type input struct {
	operation operation
	token     history.ID
	shared    bool // of a yield: of a reader, or of a writer that may have become one. Of accept and reject: of a reader
}

// state is the state of one lock, or of one register.
type state struct {
	holder  history.ID // the exclusive holder's token, 0 if there is none
	readers int        // that hold the lock
	newest  history.ID // the greatest token of a writer so far
}

// lockAndRegister is the specification: one holder at a time or any number of readers, rising tokens, and a register that
// accepts no token older than the newest that it has accepted from a writer. Locks and registers are independent of each other, and
// are checked one by one.
var lockAndRegister = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, in, _ any) (bool, any) {
		s, i := before.(state), in.(input)
		switch i.operation {
		case acquire:
			return s.holder == 0 && s.readers == 0 && i.token > s.newest, state{holder: i.token, newest: i.token}
		case share:
			return s.holder == 0 && i.token > s.newest, state{readers: s.readers + 1, newest: s.newest}
		case downgrade:
			if s.holder == i.token {
				return true, state{readers: 1, newest: s.newest}
			}
			return true, s
		case yield:
			if s.holder != i.token && i.shared {
				return s.readers > 0, state{holder: s.holder, readers: s.readers - 1, newest: s.newest}
			}
			return s.holder == i.token, state{newest: s.newest}
		case accept:
			if i.shared {
				return i.token >= s.newest, s
			}
			return i.token >= s.newest, state{newest: i.token}
		default:
			return i.token < s.newest, s
		}
	},
	DescribeOperation: func(in, _ any) string {
		i := in.(input)
		names := [...]string{"acquire", "share", "downgrade", "yield", "accept", "reject"}
		return fmt.Sprintf("%s %d", names[i.operation], i.token)
	},
	DescribeState: func(of any) string {
		s := of.(state)
		return fmt.Sprintf("holder %d, %d readers, newest %d", s.holder, s.readers, s.newest)
	},
}
