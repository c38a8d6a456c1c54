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

	"github.com/lockkeeper/lockkeeper/internal/background"
	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

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
	unset    int         // how often watches were refused
}

// newWireBench returns a Wire whose handshake must end within greetBy.
func newWireBench(t *testing.T, greetBy time.Duration) *wireBench {
	t.Helper()
	return newWireBenchAfter(t, nil, greetBy)
}

// newWireBenchAfter is newWireBench for a session whose connection before was previous.
func newWireBenchAfter(t *testing.T, previous *Wire, greetBy time.Duration) *wireBench {
	t.Helper()
	client, server := net.Pipe()
	b := &wireBench{server: server}
	b.Wire = New(client, time.Now().Add(greetBy), previous, new(background.Group), Hooks{
		Greeted: func(h Hello) error {
			b.hello, b.frame = Hello{Timeout: h.Timeout, SessionID: h.SessionID, Replaced: h.Replaced}, h.Frame
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
		Unset: func() { b.unset++ },
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

func TestPacketThatCannotBeSentEndsTheConnectionAndIsFailedByTheReader(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
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

// With many callers, a write usually meets the end of the connection before the reader does.
func TestConnectionThatTheServerEndsIsHungUpWhetherAReadOrAWriteMeetsItsEnd(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			end  func(b *wireBench)
			want bool
		}{
			"read":  {func(b *wireBench) { _ = b.server.Close() }, true},
			"write": {func(b *wireBench) { _ = b.server.Close(); _, _ = b.Write(request(1, wiretest.GetData)) }, true},
			"sever": {func(b *wireBench) { b.Sever(); _, _ = b.Write(request(1, wiretest.GetData)) }, false},
			"deadline": {func(b *wireBench) {
				require.NoError(t, b.SetWriteDeadline(time.Now()))
				_, _ = b.Write(request(1, wiretest.GetData))
			}, false},
		} {
			b := newWireBench(t, time.Second)
			b.shake(t)
			c.end(b)
			require.Error(t, <-b.reading(), name)
			require.Equal(t, c.want, b.HungUp(), name)
		}
	})
}

func TestDeadlinesAreTheClientsOwnAfterTheHandshake(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
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
	faketime.Test(t, func(t *testing.T) {
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

func TestReplyThatIsTooLargeIsRefusedAndTheNextOnePasses(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.hooks.MaxReply = 100
		b.shake(t)
		fits, large := make([]byte, 84), make([]byte, 100_000) // beside a header of 16 bytes
		b.serve(wiretest.Reply(1, 7, 0, fits), wiretest.Reply(2, 8, 0, large), wiretest.Reply(3, 9, 0, fits))
		for _, want := range [][]byte{
			wiretest.Reply(1, 0, 0, fits), wiretest.Reply(2, 0, -123, nil), wiretest.Reply(3, 0, 0, fits),
		} {
			got, err := b.next()
			require.NoError(t, err)
			require.Equal(t, want[4:], got)
		}
	})
}

func TestAnsweredPacketsAreThoseWhoseRepliesCameInOrder(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
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
			faketime.Test(t, func(t *testing.T) {
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
