// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/protocol"
)

// A witness is the name of a node that is, or was, in a queue: while it exists, so does the life of the parent in which the
// client believes, and a join that checks it needs no nonce in its name. It is of any client. The zero value knows none.
//
// A plain name with the tag can be guessed, because in another life of the parent no node has it. A node of another library is no
// witness, as its name recurs. So does a name with a nonce, by its tag alone, as that is only what its creator believed: it
// must be from a listing of that life.
type witness struct {
	mu   sync.Mutex // guards what follows
	tag  int64      // czxid of the parent
	name string     // empty if there is none
}

// guess takes the number of the child that was created last, from the reply to a release of the place. With one child alone, that is
// the next holder, and soon gone.
func (w *witness) guess(p *Place, parent *zk.Stat) {
	number, name := protocol.LastNumber(parent.Cversion, parent.NumChildren), ""
	if parent.NumChildren >= 2 && 0 <= number && number < protocol.OverflowSequence {
		name = protocol.NamePrefix(parent.Czxid, "", p.mode) + protocol.SequenceSuffix(number)
	}
	w.set(parent.Czxid, name)
}

// see takes a listing that has the place's own node: another contender of this library, one of the last.
func (w *witness) see(lst *Listing, own protocol.Member) {
	name := lst.last[0]
	if name == own.Name {
		name = lst.last[1]
	}
	w.set(lst.Parent.Czxid, name)
}

func (w *witness) set(tag int64, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tag, w.name = tag, name
}

// of returns the name of a witness for that life of the parent, an empty string if none is known.
func (w *witness) of(tag int64) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tag != tag {
		return ""
	}
	return w.name
}

// forget makes a name that was missing no witness any more. It was of another client, whose node may leave at any time: this
// proves nothing about the parent.
func (w *witness) forget(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.name == name {
		w.name = ""
	}
}
