// SPDX-License-Identifier: Apache-2.0

package session

// bell is Bell of a Session.
func (ws *watches) bell(path string) (bell <-chan struct{}, stop func()) {
	rung := make(chan struct{}, 1)
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
