// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

// A wiretest.Reply of another zxid reaches the client without it.
func (z *zxids) hidden(zxid int64) int64 {
	frame := wiretest.Reply(7, zxid, 0, []byte("the body"))
	z.hide(frame)
	return int64(binary.BigEndian.Uint64(frame[zxidOfReply:]))
}

// filled returns the zxids that the handshake and the watches of a connection carry.
func (z *zxids) filled() (handshake, watches int64) {
	p := z.fill(connectRequest(99), 0, false)
	handshake = int64(binary.BigEndian.Uint64(p[zxidOfHandshake:]))
	p = z.fill(longRequest(7, opSetWatches), opSetWatches, true)
	return handshake, int64(binary.BigEndian.Uint64(p[zxidOfSetWatches:]))
}

// longRequest is a request with a body.
func longRequest(xid, op int32) []byte {
	return wiretest.Framed(append(request(xid, op)[4:], make([]byte, 20)...))
}

func TestHandshakeCarriesTheHighestZxidThatTheSessionHasSeen(t *testing.T) {
	var first zxids
	handshake, _ := first.filled()
	require.Zero(t, handshake, "a new session has seen nothing")
	require.Zero(t, first.hidden(5), "the client does not see the zxid")
	require.Zero(t, first.hidden(9))
	require.Zero(t, first.hidden(-1), "no zxid")

	second := first.next(true)
	handshake, _ = second.filled()
	require.EqualValues(t, 9, handshake)

	failed := second.next(false)
	third := failed.next(false)
	handshake, _ = third.filled()
	require.EqualValues(t, 9, handshake, "connections that came to nothing do not count")
}

// For watches that are set again, a server sends the events after the zxid of the request. Those
// must include the events during a connection whose server never had the watches.
func TestWatchesAreSetAgainFromWhereTheirEventsWereLastComplete(t *testing.T) {
	var first zxids
	first.hidden(5)
	second := first.next(true)
	second.hidden(8)
	_, watches := second.filled()
	require.EqualValues(t, 5, watches, "not what this connection has seen")

	third := second.next(false)
	handshake, watches := third.filled()
	require.EqualValues(t, 8, handshake)
	require.EqualValues(t, 5, watches, "the second server was not asked, or has not answered")
	third.hidden(12)

	fourth := third.next(true)
	_, watches = fourth.filled()
	require.EqualValues(t, 12, watches, "all events have come on the third connection")
}

func TestOtherPacketsAreSentAsTheyAre(t *testing.T) {
	z := zxids{before: 5, watched: 5}
	for _, op := range []int32{wiretest.GetData, opSetAuth, wiretest.Multi} {
		p := longRequest(7, op)
		require.Equal(t, p, z.fill(p, op, true))
	}
	short := request(7, opSetWatches)
	require.Equal(t, short, z.fill(short, opSetWatches, true))
	p := connectRequest(99)
	z.fill(p, 0, false)
	require.Equal(t, connectRequest(99), p, "what the client wrote is its own")
}

// The client has 0 for its last zxid, and the server gets what the session has seen: also
// after a hundred and one elections, when the upper half of the zxid is the operation of
// the request to set watches.
func TestWireSendsTheServerTheZxidThatItHidesFromTheClient(t *testing.T) {
	const seen = opSetWatches<<32 | 7
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.zxids = zxids{before: seen, watched: 4, seen: seen}
		sent := make(chan []byte)
		go func() {
			defer close(sent)
			for {
				frame, err := wiretest.Read(b.server)
				if err != nil {
					return
				}
				sent <- frame
			}
		}()
		go func() { _, _ = b.Write(connectRequest(0)) }()
		require.Equal(t, connectRequest(seen), wiretest.Framed(<-sent))

		b.serve(wiretest.Hello(wiretest.Timeout, 0x100), wiretest.Reply(1, seen+1, 0, []byte("the body")))
		_, err := b.next()
		require.NoError(t, err)
		go func() { _, _ = b.Write(longRequest(8, opSetWatches)) }()
		frame := <-sent
		require.EqualValues(t, 4, binary.BigEndian.Uint64(frame[zxidOfSetWatches-4:]))

		got, err := b.next()
		require.NoError(t, err)
		require.Equal(t, wiretest.Reply(1, 0, 0, []byte("the body")), wiretest.Framed(got))
		following := b.zxids.next(true)
		handshake, _ := following.filled()
		require.EqualValues(t, seen+1, handshake)
	})
}
