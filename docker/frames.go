// SPDX-License-Identifier: Apache-2.0

package docker

import "encoding/binary"

// maxFrame is greater than the default limits of servers and clients. A greater length means
// that the stream does not consist of frames: it is a four-letter word, or TLS.
const maxFrame = 4 << 20

// framer splits a stream into frames. Its zero value is at the start of a stream.
type framer struct {
	partial []byte // of the current frame, with its length
	seen    int    // complete frames
	blind   bool   // the stream does not consist of frames
}

// next consumes b up to the end of the current frame at most, and returns the
// frame without its length if it ends there. The frame is valid until the next
// call.
func (f *framer) next(b []byte) (frame []byte, n int) {
	for !f.blind {
		want := 4
		if len(f.partial) >= 4 {
			size := binary.BigEndian.Uint32(f.partial)
			if size > maxFrame {
				break
			}
			want += int(size)
		}
		if take := want - len(f.partial); take > 0 {
			take = min(take, len(b)-n)
			f.partial = append(f.partial, b[n:n+take]...)
			n += take
			if len(f.partial) < want {
				return nil, n
			}
			if want == 4 {
				continue
			}
		}
		frame = f.partial[4:]
		f.partial = f.partial[:0]
		f.seen++
		return frame, n
	}
	f.blind, f.partial = true, nil
	return nil, len(b)
}
