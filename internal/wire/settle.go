// SPDX-License-Identifier: Apache-2.0

package wire

// Settle stops the Wire from passing frames to the client, except the answer to the close of the session. The channel that it
// returns is closed when the client has decoded the frames that were passed before, or the connection has ended.
//
// Then the client can be closed: when it is, it returns from all requests, and reads the path of a container from an answer
// that it may be decoding (go-zookeeper v1.0.4: CreateContainer).
func (w *Wire) Settle() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.settling && !w.passing {
		close(w.settled)
	}
	w.settling = true
	return w.settled
}

// passed records that the client has decoded the last frame.
func (w *Wire) passed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.settling && w.passing {
		close(w.settled)
	}
	w.passing = false
}

// nextToPass waits for the next frame that is passed to the client.
func (w *Wire) nextToPass() error {
	for {
		if err := w.nextFrame(); err != nil {
			return err
		}
		w.mu.Lock()
		w.passing = !w.settling
		pass := w.passing || w.op == opClose
		w.mu.Unlock()
		if pass {
			return nil
		}
		if _, err := w.r.Discard(w.left); err != nil {
			return err
		}
		w.left, w.unread = 0, nil
	}
}
