// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/background"
	"github.com/lockkeeper/lockkeeper/recipes/internal/wiretest"
)

func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	wiretest.Bubble(t, test)
}

// A wireBench is a Wire of which the test is both the client and the server, in a bubble.
type wireBench struct {
	*Wire
	server   net.Conn
	hello    Hello  // without its frame
	frame    []byte // the hello's
	failure  error
	mu       sync.Mutex // guards what follows
	answered []time.Time
	proofs   []time.Time // when they were sent
}

// newWireBench returns a Wire whose handshake must end within greetBy.
func newWireBench(t *testing.T, greetBy time.Duration) *wireBench {
	t.Helper()
	client, server := net.Pipe()
	b := &wireBench{server: server}
	b.Wire = New(client, time.Now().Add(greetBy), nil, false, new(background.Group), Hooks{
		Greeted: func(h Hello) error {
			b.hello, b.frame = Hello{Timeout: h.Timeout, SessionID: h.SessionID}, h.Frame
			return nil
		},
		Failed: func(err error) { b.failure = err },
		Answered: func(sent time.Time) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.answered = append(b.answered, sent)
		},
		Proved: func(sent, _ time.Time) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.proofs = append(b.proofs, sent)
		},
	})
	t.Cleanup(func() {
		_ = b.Close()
		_ = server.Close()
	})
	return b
}

// request is a packet as the client writes it.
func request(xid, op int32) []byte {
	packet := binary.BigEndian.AppendUint32(nil, uint32(xid))
	return wiretest.Framed(binary.BigEndian.AppendUint32(packet, uint32(op)))
}

// connectRequest is a handshake, as the client writes it.
func connectRequest(lastZxid int64) []byte {
	packet := binary.BigEndian.AppendUint32(nil, 0)
	packet = binary.BigEndian.AppendUint64(packet, uint64(lastZxid))
	packet = binary.BigEndian.AppendUint32(packet, 12000)
	packet = binary.BigEndian.AppendUint64(packet, 0x100)
	return wiretest.Framed(wiretest.AppendString(packet, "0123456789abcdef"))
}

// serve writes frames as the server, and reads requests.
func (b *wireBench) serve(frames ...[]byte) {
	go func() {
		for _, f := range frames {
			if _, err := b.server.Write(f); err != nil {
				return
			}
		}
	}()
}

// drain makes the server read, so that the client's writes do not block.
func (b *wireBench) drain() {
	go func() { _, _ = io.Copy(io.Discard, b.server) }()
}

// shake performs the handshake.
func (b *wireBench) shake(t *testing.T) {
	t.Helper()
	b.drain()
	_, err := b.Write(connectRequest(0))
	require.NoError(t, err)
	frame := wiretest.Hello(wiretest.Timeout, 0x100)
	b.serve(frame)
	got := make([]byte, len(frame))
	_, err = io.ReadFull(b, got)
	require.NoError(t, err)
	require.Equal(t, frame, got, "the client gets every byte")
}

// next reads one frame as the client does, length first.
func (b *wireBench) next() ([]byte, error) { return wiretest.Read(b) }

// reading starts a read of one frame, whose result comes on the channel.
func (b *wireBench) reading() <-chan error {
	read := make(chan error, 1)
	go func() {
		_, err := b.next()
		read <- err
	}()
	return read
}

func TestHandshakeReportsTheNegotiatedTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.shake(t)
		require.Equal(t, Hello{Timeout: 12 * time.Second, SessionID: 0x100}, b.hello)
		require.Equal(t, wiretest.Hello(wiretest.Timeout, 0x100), b.frame)
		require.NoError(t, b.failure)
	})
}

func TestHandshakeOfAServerWithoutReadOnlyModeIsUnderstood(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		packet := wiretest.Hello(4*time.Second, 7)[4:]
		b.serve(wiretest.Framed(packet[:36]))
		_, err := b.next()
		require.NoError(t, err)
		require.Equal(t, Hello{Timeout: 4 * time.Second, SessionID: 7}, b.hello)
	})
}

func TestHandshakeOfAnExpiredSessionReachesTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.serve(wiretest.Hello(0, 0))
		packet, err := b.next()
		require.NoError(t, err)
		require.Equal(t, wiretest.Hello(0, 0)[4:], packet)
		require.Equal(t, Hello{}, b.hello)
	})
}

func TestHandshakeThatTheHookRefusesDoesNotReachTheClient(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Minute)
		b.hooks.Greeted = func(Hello) error { return io.ErrNoProgress }
		b.serve(wiretest.Hello(time.Second, 7))
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
				b := newWireBench(t, time.Minute)
				b.serve([]byte(banner))
				n, err := b.Read(make([]byte, 4))
				require.Zero(t, n, "the client receives no length")
				require.ErrorContains(t, err, "not a ZooKeeper server")
				require.Equal(t, err, b.failure)
			})
		})
	}
}

func TestServerThatHangsUpDuringTheHandshakeIsSaidNotToServe(t *testing.T) {
	for name, sent := range map[string][]byte{"before its answer": nil, "amid its answer": wiretest.Hello(time.Second, 7)[:20]} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute)
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
				b := newWireBench(t, time.Second)
				b.serve(wiretest.Hello(wiretest.Timeout, 7)[:part])
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
		b := newWireBench(t, time.Second)
		began := time.Now()
		require.NoError(t, b.SetWriteDeadline(began.Add(80*time.Second)))
		_, err := b.Write(connectRequest(0)) // the server does not read
		require.NoError(t, err, "a Write never fails: the reader reports the error")
		require.Equal(t, time.Second, time.Since(began))
		_, err = b.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.ErrorContains(t, err, "handshake")
		require.Equal(t, err, b.failure)
	})
}

// The client answers a request whose Write has failed more than once, and can block on that for
// good.
func TestPacketThatCannotBeSentEndsTheConnectionAndIsFailedByTheReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.shake(t)
		read := b.reading()
		require.NoError(t, b.SetWriteDeadline(time.Now()))
		packet := request(1, wiretest.GetData)
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
		b := newWireBench(t, time.Second)
		b.shake(t)
		began := time.Now()
		require.NoError(t, b.SetReadDeadline(began.Add(8*time.Second)))
		_, err := b.Read(make([]byte, 4))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 8*time.Second, time.Since(began))

		require.NoError(t, b.SetReadDeadline(time.Time{}))
		time.AfterFunc(time.Hour, func() { b.serve(wiretest.Reply(1, 2, 0, nil)) })
		_, err = b.next()
		require.NoError(t, err, "no deadline is no deadline")
	})
}

func TestEveryByteOfEveryFrameButTheZxidPassesInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.shake(t)
		var frames, wanted [][]byte
		for i := range 100 {
			body, event := make([]byte, i*i*5), wiretest.Reply(xidWatchEvent, -1, 0, []byte("event"))
			frames = append(frames, wiretest.Reply(int32(i+1), int64(i), 0, body), event)
			wanted = append(wanted, wiretest.Reply(int32(i+1), 0, 0, body), event)
		}
		b.serve(frames...)
		for i, want := range wanted {
			got, err := b.next()
			require.NoError(t, err)
			require.Equal(t, want[4:], got, "frame %d", i)
		}
	})
}

func TestAnsweredPacketsAreThoseWhoseRepliesCameInOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
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
		first, second, ping := send(1, wiretest.GetData), send(2, wiretest.GetData), send(-2, wiretest.Ping)
		require.Len(t, b.answered, 1, "nothing came back yet")
		receive(wiretest.Reply(xidWatchEvent, -1, 0, []byte("event")))
		require.Len(t, b.answered, 1, "a watch event answers nothing")
		receive(wiretest.Reply(1, 5, 0, nil))
		require.Equal(t, []time.Time{began, first}, b.answered)
		third := send(3, wiretest.Multi)
		receive(wiretest.Reply(2, 5, -101, nil), wiretest.Reply(xidWatchEvent, -1, 0, []byte("event")), wiretest.Reply(-2, 5, 0, nil))
		require.Equal(t, []time.Time{began, first, second, ping}, b.answered, "an error is an answer")
		receive(wiretest.Reply(3, 6, 0, nil), wiretest.Reply(4, 6, 0, nil))
		require.Equal(t, []time.Time{began, first, second, ping, third}, b.answered, "the last answers no request")
	})
}

// refusals are the results of a transaction that was refused, with their codes.
func refusals(codes ...int32) (body []byte) {
	for _, code := range codes {
		body = binary.BigEndian.AppendUint32(body, uint32(0xffffffff))
		body = append(body, 0)
		body = binary.BigEndian.AppendUint32(body, uint32(code))
		body = binary.BigEndian.AppendUint32(body, uint32(code))
	}
	return end(body)
}

// end is what the results of a transaction end with.
func end(body []byte) []byte {
	return append(body, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff)
}

func TestOnlyAQuorumsAnswerToALivingSessionIsProof(t *testing.T) {
	checked := []byte{0, 0, 0, wiretest.Check, 0, 0, 0, 0, 0}
	for _, c := range []struct {
		name  string
		op    int32
		reply []byte
		proof bool
	}{
		{"create", wiretest.Create, wiretest.Reply(1, 77, 0, nil), true},
		{"delete", wiretest.Delete, wiretest.Reply(1, 77, 0, nil), true},
		{"write", wiretest.SetData, wiretest.Reply(1, 77, 0, nil), true},
		{"container", wiretest.Container, wiretest.Reply(1, 77, 0, nil), true},
		{"transaction", wiretest.Multi, wiretest.Reply(1, 77, 0, end(checked)), true},
		{"transaction whose first failure is a missing node", wiretest.Multi, wiretest.Reply(1, 77, 0, refusals(0, 0, wiretest.NoNode, wiretest.Undone)), true},
		{"transaction whose first failure is another version", wiretest.Multi, wiretest.Reply(1, 77, 0, refusals(wiretest.BadVersion, wiretest.Undone)), true},
		{"transaction of 128 whose last fails", wiretest.Multi, wiretest.Reply(1, 77, 0, refusals(append(make([]int32, 127), wiretest.NoNode)...)), true},
		{"transaction of an expired session", wiretest.Multi, wiretest.Reply(1, 77, 0, refusals(wiretest.Expired, wiretest.Undone)), false},
		{"transaction whose second operation finds the session expired", wiretest.Multi, wiretest.Reply(1, 77, 0, refusals(0, wiretest.Expired, wiretest.Undone)), false},
		{"transaction that was not permitted", wiretest.Multi, wiretest.Reply(1, 77, 0, refusals(wiretest.NoAuth, wiretest.NoNode)), false},
		{"empty transaction", wiretest.Multi, wiretest.Reply(1, 77, 0, end(nil)), false},
		{"transaction without results", wiretest.Multi, wiretest.Reply(1, 77, 0, nil), false},
		{"refused create", wiretest.Create, wiretest.Reply(1, 77, wiretest.NodeExists, nil), false},
		{"expired create", wiretest.Create, wiretest.Reply(1, 77, wiretest.Expired, nil), false},
		{"read", wiretest.GetData, wiretest.Reply(1, 77, 0, nil), false},
		{"ping", wiretest.Ping, wiretest.Reply(-2, 77, 0, nil), false},
		{"sync", 9, wiretest.Reply(1, 77, 0, nil), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newWireBench(t, time.Minute)
				b.shake(t)
				time.Sleep(time.Second)
				sent := time.Now()
				_, err := b.Write(request(1, c.op))
				require.NoError(t, err)
				time.Sleep(time.Second)
				b.serve(c.reply)
				got, err := b.next()
				require.NoError(t, err)
				if c.op != wiretest.Ping {
					clear(c.reply[zxidOfReply : zxidOfReply+8])
				}
				require.Equal(t, c.reply[4:], got, "the client gets every byte but the zxid")
				if c.proof {
					require.Equal(t, []time.Time{sent}, b.proofs, "from when it was written to the wire")
				} else {
					require.Empty(t, b.proofs)
				}
			})
		})
	}
}
