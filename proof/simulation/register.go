// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"sync"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/proof/history"
)

// A register is a resource behind a lock. A fenced register checks tokens; a bare one accepts every write.
type register struct {
	recorder *history.Recorder

	mu   sync.Mutex    // guards gate and its order in the history
	gate *fencing.Gate // nil: bare
}

// write writes to the register, or reads from it for a reader. The caller is neither paused nor crashed.
func (r *register) write(by history.Event, token fencing.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by.Kind, by.Token, by.Register = history.Wrote, history.ID(token), by.Number
	by.Fenced, by.Accepted = r.gate != nil, true
	switch {
	case r.gate == nil:
	case by.Shared:
		by.Accepted = r.gate.AdmitShared(token) == nil
	default:
		by.Accepted = r.gate.Admit(token) == nil
	}
	r.recorder.Add(by)
}
