// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A wireBench is a wire between a test that plays the client and one that plays
// the server, in a bubble.
type wireBench struct {
	*wire
	server   net.Conn
	hello    hello
	failure  error
	mu       sync.Mutex // guards answered
	answered []time.Time
}

// newWireBench returns a wire that shakes hands until greetBy from now.
func newWireBench(t *testing.T, greetBy time.Duration, gated bool) *wireBench {
	t.Helper()
	client, server := net.Pipe()
	b := &wireBench{server: server}
	b.wire = newWire(client, time.Now().Add(greetBy), gated, 500*time.Millisecond)
	b.greeted = func(h hello) error { b.hello = h; return nil }
	b.failed = func(err error) { b.failure = err }
	b.wire.answered = func(sent time.Time) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.answered = append(b.answered, sent)
	}
	t.Cleanup(func() {
		_ = b.Close()
		_ = server.Close()
	})
	return b
}

// request is a packet as the client writes it.
func request(xid, op int32) []byte {
	packet := binary.BigEndian.AppendUint32(nil, uint32(xid))
	return framed(binary.BigEndian.AppendUint32(packet, uint32(op)))
}

// connectRequest is a handshake, as the client writes it.
func connectRequest(lastZxid int64) []byte {
	packet := binary.BigEndian.AppendUint32(nil, 0)
	packet = binary.BigEndian.AppendUint64(packet, uint64(lastZxid))
	packet = binary.BigEndian.AppendUint32(packet, 12000)
	packet = binary.BigEndian.AppendUint64(packet, 0x100)
	return framed(appendString(packet, "0123456789abcdef"))
}

// serve writes frames in the server's name, and reads what comes.
func (b *wireBench) serve(frames ...[]byte) {
	go func() {
		for _, f := range frames {
			if _, err := b.server.Write(f); err != nil {
				return
			}
		}
	}()
}

// drain has the server read, so that the client's writes do not wait.
func (b *wireBench) drain() {
	go func() { _, _ = io.Copy(io.Discard, b.server) }()
}

// shake goes through the handshake.
func (b *wireBench) shake(t *testing.T) {
	t.Helper()
	b.drain()
	_, err := b.Write(connectRequest(0))
	require.NoError(t, err)
	frame := helloFrame(stubTimeout, 0x100)
	b.serve(frame)
	got := make([]byte, len(frame))
	_, err = io.ReadFull(b, got)
	require.NoError(t, err)
	require.Equal(t, frame, got, "the client gets every byte")
}

// next reads one frame as the client does, length first.
func (b *wireBench) next() ([]byte, error) { return readFrame(b) }

func TestHandshakeTellsTheNegotiatedTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute, false)
		b.shake(t)
		require.Equal(t, hello{timeout: 12 * time.Second, sessionID: 0x100}, b.hello)
		require.NoError(t, b.failure)
	})
}

func TestHandshakeOfAServerWithoutReadOnlyModeIsUnderstood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute, false)
		packet := helloFrame(4*time.Second, 7)[4:]
		b.serve(framed(packet[:36]))
		_, err := b.next()
		require.NoError(t, err)
		require.Equal(t, hello{timeout: 4 * time.Second, sessionID: 7}, b.hello)
	})
}

func TestHandshakeOfAnExpiredSessionReachesTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute, false)
		b.serve(helloFrame(0, 0))
		packet, err := b.next()
		require.NoError(t, err)
		require.Equal(t, helloFrame(0, 0)[4:], packet)
		require.Equal(t, hello{}, b.hello)
	})
}

func TestHandshakeThatIsRefusedByUsReachesNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute, false)
		b.greeted = func(hello) error { return io.ErrNoProgress }
		b.serve(helloFrame(time.Second, 7))
		n, err := b.Read(make([]byte, 4))
		require.Zero(t, n)
		require.ErrorIs(t, err, io.ErrNoProgress)
		require.ErrorIs(t, b.failure, io.ErrNoProgress)
	})
}

// The client would allocate as many bytes as the first four say, and wait for
// them without a bound.
func TestServerThatIsNotZooKeeperIsNamedAsSuchAndPassesNothingOn(t *testing.T) {
	for name, banner := range map[string]string{
		"HTTP":               "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
		"SSH":                "SSH-2.0-OpenSSH_9.9\r\n",
		"Redis":              "-ERR unknown command\r\n",
		"TLS alert":          "\x15\x03\x01\x00\x02\x02\x0a",
		"MySQL":              "\x4a\x00\x00\x00\x0a8.0.36\x00",
		"all ones":           "\xff\xff\xff\xff\xff\xff\xff\xff",
		"nothing in a frame": "\x00\x00\x00\x00",
		"too short a frame":  "\x00\x00\x00\x23.......................................",
		"too long a frame":   "\x00\x00\x01\x01.......................................",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute, false)
				b.serve([]byte(banner))
				n, err := b.Read(make([]byte, 4))
				require.Zero(t, n, "the client is told no length")
				require.ErrorContains(t, err, "not a ZooKeeper server")
				require.Equal(t, err, b.failure)
			})
		})
	}
}

func TestServerThatHangsUpDuringTheHandshakeIsSaidNotToServe(t *testing.T) {
	for name, sent := range map[string][]byte{"at once": nil, "amid its answer": helloFrame(time.Second, 7)[:20]} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute, false)
				go func() {
					_, _ = b.server.Write(sent)
					_ = b.server.Close()
				}()
				_, err := b.Read(make([]byte, 4))
				require.ErrorContains(t, err, "closed the connection during the handshake")
				require.Equal(t, err, b.failure)
			})
		})
	}
}

func TestHandshakeEndsAtItsBoundWhateverTheClientAsksFor(t *testing.T) {
	for name, part := range map[string]int{"no answer": 0, "a length and no more": 4, "half an answer": 20} {
		for _, ask := range []time.Duration{0, 80 * time.Second, time.Second / 2} {
			bubble(t, func(t *testing.T) {
				b := newWireBench(t, time.Second, false)
				b.serve(helloFrame(stubTimeout, 7)[:part])
				began := time.Now()
				deadline, want := time.Time{}, time.Second // none: the client asks for none before the body
				if ask > 0 {
					deadline, want = began.Add(ask), min(ask, time.Second)
				}
				require.NoError(t, b.SetReadDeadline(deadline))
				_, err := b.Read(make([]byte, 4))
				require.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
				require.ErrorContains(t, err, "did not answer the handshake")
				require.Equal(t, want, time.Since(began), "%s, %v", name, ask)
			})
		}
	}
}

func TestWriteOfTheHandshakeEndsAtItsBound(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, false)
		began := time.Now()
		require.NoError(t, b.SetWriteDeadline(began.Add(80*time.Second)))
		_, err := b.Write(connectRequest(0)) // nobody reads
		require.NoError(t, err, "a Write never fails: the reader is told")
		require.Equal(t, time.Second, time.Since(began))
		_, err = b.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.ErrorContains(t, err, "handshake")
		require.Equal(t, err, b.failure)
	})
}

// The client loses count of the answers to a request whose Write has failed, and
// can be stuck over it for good.
func TestPacketThatCannotBeSentEndsTheConnectionAndIsFailedByTheReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, false)
		b.shake(t)
		read := b.reading()
		require.NoError(t, b.SetWriteDeadline(time.Now()))
		packet := request(1, opGetData)
		n, err := b.Write(packet)
		require.NoError(t, err)
		require.Equal(t, len(packet), n)
		require.Error(t, <-read)
		n, err = b.Write(packet)
		require.NoError(t, err, "nor does a Write after the end")
		require.Equal(t, len(packet), n)
	})
}

func TestDeadlinesAreTheClientsOwnAfterTheHandshake(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, false)
		b.shake(t)
		began := time.Now()
		require.NoError(t, b.SetReadDeadline(began.Add(8*time.Second)))
		_, err := b.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 8*time.Second, time.Since(began))

		require.NoError(t, b.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Hour, func() { b.serve(reply(1, 2, 0, nil)) })
		_, err = b.next()
		require.NoError(t, err, "no deadline is no deadline")
	})
}

func TestEveryByteOfEveryFramePassesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, false)
		b.shake(t)
		var frames [][]byte
		for i := range 100 {
			frames = append(frames, reply(int32(i+1), int64(i), 0, make([]byte, i*i*5)), reply(xidWatchEvent, -1, 0, []byte("event")))
		}
		b.serve(frames...)
		for i, want := range frames {
			got, err := b.next()
			require.NoError(t, err)
			require.Equal(t, want[4:], got, "frame %d", i)
		}
	})
}

func TestAnsweredPacketsAreThoseWhoseRepliesCameInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, false)
		began := time.Now()
		b.shake(t)
		require.Equal(t, []time.Time{began}, b.answered, "the handshake is a packet")

		send := func(xid, op int32) time.Time {
			sent := time.Now()
			_, err := b.Write(request(xid, op))
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
			return sent
		}
		receive := func(frames ...[]byte) {
			b.serve(frames...)
			for range frames {
				_, err := b.next()
				require.NoError(t, err)
			}
		}
		first, second, ping := send(1, opGetData), send(2, opGetData), send(-2, opPing)
		require.Len(t, b.answered, 1, "nothing came back yet")
		receive(reply(xidWatchEvent, -1, 0, []byte("event")))
		require.Len(t, b.answered, 1, "a watch event answers nothing")
		receive(reply(1, 5, 0, nil))
		require.Equal(t, []time.Time{began, first}, b.answered)
		third := send(3, opMulti)
		receive(reply(2, 5, -101, nil), reply(xidWatchEvent, -1, 0, []byte("event")), reply(-2, 5, 0, nil))
		require.Equal(t, []time.Time{began, first, second, ping}, b.answered, "an error is an answer")
		receive(reply(3, 6, 0, nil), reply(4, 6, 0, nil))
		require.Equal(t, []time.Time{began, first, second, ping, third}, b.answered, "nobody asked for the last")
	})
}

// gated is a bench after the handshake of a session that is attached anew.
func gated(t *testing.T) *wireBench {
	t.Helper()
	b := newWireBench(t, time.Second, true)
	b.shake(t)
	return b
}

// reading starts a read of one frame, whose result comes on the channel.
func (b *wireBench) reading() <-chan error {
	read := make(chan error, 1)
	go func() {
		_, err := b.next()
		read <- err
	}()
	return read
}

func requirePending(t *testing.T, read <-chan error, why string) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-read:
		require.Fail(t, "the reply has passed", "%s: %v", why, err)
	default:
	}
}

func TestRepliesWaitUntilTheWatchesWereSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := gated(t)
		began := time.Now()
		read := b.reading()
		b.serve(reply(-2, 5, 0, nil))
		requirePending(t, read, "before anything was sent")
		_, err := b.Write(request(7, opGetData))
		require.NoError(t, err)
		requirePending(t, read, "another request is not the watches")
		_, err = b.Write(request(8, opSetWatches))
		require.NoError(t, err)
		require.NoError(t, <-read)
		require.Equal(t, began, time.Now(), "at once")

		b.serve(reply(7, 5, 0, nil))
		_, err = b.next()
		require.NoError(t, err, "from then on the gate is open")
	})
}

func TestRepliesWaitUntilTheWatchesAreWrittenAndNotJustAboutToBe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client, server := net.Pipe()
		b := gated(t)
		b.Conn = client // that nobody reads yet
		read := b.reading()
		b.serve(reply(1, 5, 0, nil))
		synctest.Wait()
		written := make(chan error, 1)
		go func() {
			_, err := b.Write(request(8, opSetWatches))
			written <- err
		}()
		requirePending(t, read, "the client still has the packet in its hands")
		go func() { _, _ = io.Copy(io.Discard, server) }()
		require.NoError(t, <-written)
		require.NoError(t, <-read)
		require.NoError(t, server.Close())
	})
}

func TestRepliesToCredentialsPassTheGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := gated(t)
		began := time.Now()
		_, err := b.Write(request(5, opSetAuth))
		require.NoError(t, err)
		b.serve(reply(5, 5, 0, nil), reply(6, 5, 0, nil))
		_, err = b.next()
		require.NoError(t, err, "the client sends nothing else before it")
		require.Equal(t, began, time.Now())
		requirePending(t, b.reading(), "other replies wait all the same")
	})
}

func TestGateOpensAtItsBoundWhenNoWatchesAreSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := gated(t)
		began := time.Now()
		b.serve(reply(-2, 5, 0, nil), reply(1, 5, 0, nil))
		_, err := b.next()
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, time.Since(began))
		_, err = b.next()
		require.NoError(t, err)
		require.Equal(t, 500*time.Millisecond, time.Since(began), "it waits once, not for each reply")
	})
}

func TestCloseEndsAReadThatWaitsAtTheGate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := gated(t)
		began := time.Now()
		read := b.reading()
		b.serve(reply(1, 5, 0, nil))
		requirePending(t, read, "the gate is shut")
		require.NoError(t, b.Close())
		require.ErrorIs(t, <-read, net.ErrClosed, "what waits there is not let through")
		require.Equal(t, began, time.Now())
		require.NoError(t, b.Close(), "twice does no harm")
	})
}

// The handshake of the client has the last zxid where other packets have their
// operation; its upper half counts elections.
func TestHandshakeAfterAHundredAndOneElectionsLeavesTheGateShut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, true)
		b.drain()
		_, err := b.Write(connectRequest(opSetWatches<<32 | 7))
		require.NoError(t, err)
		frame := helloFrame(stubTimeout, 0x100)
		b.serve(frame, reply(1, 5, 0, nil))
		_, err = b.next()
		require.NoError(t, err)
		requirePending(t, b.reading(), "the watches were not sent yet")
	})
}

func TestWireWithoutAGateHoldsNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second, false)
		b.shake(t)
		began := time.Now()
		b.serve(reply(1, 5, 0, nil))
		_, err := b.next()
		require.NoError(t, err)
		require.Equal(t, began, time.Now())
	})
}
