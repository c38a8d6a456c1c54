// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/history"
)

// A register is the resource behind a lock. The fenced one checks tokens, the bare one takes everything.
type register struct {
	recorder *history.Recorder

	mu   sync.Mutex    // guards gate and its order in the history
	gate *fencing.Gate // nil: bare
}

// write writes to the register. A pause or a crash of the writer is over, or has not begun, when it is called.
func (r *register) write(by history.Event, token fencing.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by.Kind, by.Token = history.Wrote, history.ID(token)
	by.Fenced, by.Accepted = r.gate != nil, true
	if r.gate != nil {
		by.Accepted = r.gate.Admit(token) == nil
	}
	r.recorder.Add(by)
}
