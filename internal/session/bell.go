// SPDX-License-Identifier: Apache-2.0

package session

// Bell returns a channel with room for one element. The session sends to it after a watch on
// the node at path, or on one of its children, has fired, and when the session is over. So one
// channel stands for any number of watches. The caller calls stop when it no longer receives.
func (s *Session) Bell(path string) (bell <-chan struct{}, stop func()) {
	rung := make(chan struct{}, 1)
	ws := &s.watches
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.bells[path] == nil {
		ws.bells[path] = make(map[chan struct{}]struct{})
	}
	ws.bells[path][rung] = struct{}{}
	return rung, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		delete(ws.bells[path], rung)
		if len(ws.bells[path]) == 0 {
			delete(ws.bells, path)
		}
	}
}

// ring sends to the bells of path.
func (ws *watches) ring(path string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ringAll(ws.bells[path])
}

// ringAll does not wait: a bell that has not been received from says all there is to say.
func ringAll(bells map[chan struct{}]struct{}) {
	for bell := range bells {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}
