// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"io"
)

// readEvent records which watches the event has fired that the next frame is. A watch that is not seen to fire would be missing on
// every later connection: complete would never be true again.
func (w *Wire) readEvent() error {
	const kind, path = codeOfReply + 4, codeOfReply + 4 + 4 + 4 // after the kind, the state
	if w.left < path {
		return nil
	}
	frame, err := w.frame()
	if frame == nil || err != nil {
		return err
	}
	if node, _, ok := cutString(frame[path:]); ok {
		w.watches.fired(int32(binary.BigEndian.Uint32(frame[kind:])), node)
	}
	return nil
}

// frame waits for all of the next frame, and returns it without consuming it. It returns none if the client will end the
// connection because of the frame's size: the event is then due again on the next connection.
func (w *Wire) frame() ([]byte, error) {
	switch limit := w.hooks.MaxReply; {
	case limit > 0 && w.left-4 > limit:
		return nil, nil
	case w.left <= w.r.Size():
		return w.r.Peek(w.left)
	}
	frame := make([]byte, w.left)
	if _, err := io.ReadFull(w.r, frame); err != nil {
		return nil, err
	}
	w.left, w.unread = 0, frame
	return frame, nil
}
