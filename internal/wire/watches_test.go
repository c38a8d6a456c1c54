// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

// watching is a read that sets a watch, as the client writes it.
func watching(xid, op int32, path string) []byte {
	return wiretest.Framed(append(wiretest.AppendString(request(xid, op)[4:], path), 1))
}

// setWatches is the packet that sets those watches again, as the client writes it.
func setWatches(xid int32, all ...watch) []byte {
	packet := append(request(xid, opSetWatches)[4:], make([]byte, 8)...)
	for kind := range watchKinds {
		var paths []byte
		n := uint32(0)
		for _, w := range all {
			if w.kind == kind {
				paths = wiretest.AppendString(paths, w.path)
				n++
			}
		}
		packet = append(binary.BigEndian.AppendUint32(packet, n), paths...)
	}
	return wiretest.Framed(packet)
}

// exchange sends a packet as the client, and reads the server's frames. It returns what the server received.
func (b *wireBench) exchange(t *testing.T, packet []byte, frames ...[]byte) (received []byte) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		received, err = wiretest.Read(b.server)
		done <- err
	}()
	_, err := b.Write(packet)
	require.NoError(t, err)
	require.NoError(t, <-done)
	b.serve(frames...)
	for range frames {
		_, err := b.next()
		require.NoError(t, err)
	}
	return received
}

// after returns the session's next connection, behind its handshake.
func (b *wireBench) after(t *testing.T) *wireBench {
	t.Helper()
	read := b.reading() // as the client does until the end
	require.NoError(t, b.server.Close())
	require.Error(t, <-read)
	next := newWireBenchAfter(t, b.Wire, time.Second)
	next.exchange(t, connectRequest(0), wiretest.Hello(wiretest.Timeout, 0x100))
	return next
}

// setAgain exchanges a packet that sets watches again, whose answer has that zxid and code. It returns the zxid from which the
// server sets them.
func (b *wireBench) setAgain(t *testing.T, zxid int64, code int32, all ...watch) (from int64) {
	t.Helper()
	received := b.exchange(t, setWatches(99, all...), wiretest.Reply(99, zxid, code, nil))
	return int64(binary.BigEndian.Uint64(received[zxidOfSetWatches-4:]))
}

var (
	data  = watch{watchData, "/data"}
	exist = watch{watchExist, "/exist"}
	child = watch{watchChild, "/child"}
)

// watchingBench returns a connection on which the client has set three watches, up to zxid 5.
func watchingBench(t *testing.T) *wireBench {
	t.Helper()
	b := newWireBench(t, time.Second)
	b.exchange(t, connectRequest(0), wiretest.Hello(wiretest.Timeout, 0x100))
	b.exchange(t, watching(1, wiretest.GetData, data.path), wiretest.Reply(1, 3, 0, []byte("data")))
	b.exchange(t, watching(2, wiretest.Exists, exist.path), wiretest.Reply(2, 4, wiretest.NoNode, nil))
	b.exchange(t, watching(3, wiretest.GetChildren, child.path), wiretest.Reply(3, 5, 0, []byte("children")))
	return b
}

// The client sets its watches again in packets of 128 KiB, each after the answer to the one before. If a connection ends in
// between, the server of the next one must send the events since the last one that had all watches.
func TestWatchesInSeveralPacketsLoseNoEventsWhenTheConnectionEndsInBetween(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := watchingBench(t).after(t)
		require.EqualValues(t, 5, b.setAgain(t, 8, 0, data))

		b = b.after(t)
		require.EqualValues(t, 5, b.setAgain(t, 9, 0, data), "the server before had only some of them")
		require.EqualValues(t, 5, b.setAgain(t, 9, 0, exist))
		b.exchange(t, watching(4, wiretest.GetData, "/new"), wiretest.Reply(4, 10, 0, []byte("data")))

		b = b.after(t)
		require.EqualValues(t, 5, b.setAgain(t, 11, 0, data, exist), "one is missing")
		require.EqualValues(t, 5, b.setAgain(t, 11, 0, child))
		require.EqualValues(t, 5, b.setAgain(t, 12, 0, watch{watchData, "/new"}))

		b = b.after(t)
		require.EqualValues(t, 12, b.setAgain(t, 13, 0, child), "all events have come on the connection before")
	})
}

// A packet that waited in the client's queue when its connection ended goes out on the next one. It has watches of which the
// client sends another copy, and says nothing about the others.
func TestLatePacketOfTheConnectionBeforeDoesNotCountForTheOthers(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := watchingBench(t).after(t)
		require.EqualValues(t, 5, b.setAgain(t, 8, 0, exist), "late, and from the zxid of this connection")
		require.EqualValues(t, 5, b.setAgain(t, 8, 0, watch{watchData, "/fired/long/ago"}))
		require.EqualValues(t, 5, b.setAgain(t, 9, 0, data, exist))

		b = b.after(t)
		require.EqualValues(t, 5, b.setAgain(t, 9, 0, data, exist, child), "three answers, for two of three watches")

		require.EqualValues(t, 9, b.after(t).setAgain(t, 10, 0, data))
	})
}

func TestRefusedPacketOfWatchesIsReportedAndRestoresNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := watchingBench(t).after(t)
		require.EqualValues(t, 5, b.setAgain(t, 8, wiretest.Throttled, data, exist, child))
		require.Equal(t, 1, b.unset)

		b = b.after(t)
		require.EqualValues(t, 5, b.setAgain(t, 9, 0, data, exist, child))
		require.Zero(t, b.unset)

		require.EqualValues(t, 9, b.after(t).setAgain(t, 10, 0, data))
	})
}

func TestWatchesThatFireAreNotMissing(t *testing.T) {
	for _, c := range []struct {
		name     string
		event    int32
		path     string
		restored bool
	}{
		{"created", wiretest.Created, exist.path, true},
		{"changed, and did not exist before", wiretest.DataChanged, exist.path, true},
		{"deleted", wiretest.Deleted, exist.path, true},
		{"another event", wiretest.ChildrenChanged, exist.path, false},
		{"another node", wiretest.Created, data.path, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				b := watchingBench(t).after(t)
				b.setAgain(t, 8, 0, data, child)
				b.serve(wiretest.Event(c.event, c.path))
				_, err := b.next()
				require.NoError(t, err)

				want := int64(5)
				if c.restored {
					want = 8
				}
				require.Equal(t, want, b.after(t).setAgain(t, 9, 0, data))
			})
		})
	}
}

func TestSessionWithoutWatchesMissesNothing(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.exchange(t, connectRequest(0), wiretest.Hello(wiretest.Timeout, 0x100))
		reads := [][]byte{
			watching(1, wiretest.GetData, "/missing"), watching(2, wiretest.GetChildren, "/missing"),
			wiretest.Framed(append(wiretest.AppendString(request(3, wiretest.Exists)[4:], "/unwatched"), 0)),
			watching(4, wiretest.SetData, "/no/read"), request(5, wiretest.GetData),
		}
		for i, read := range reads {
			b.exchange(t, read, wiretest.Reply(int32(i+1), 7, wiretest.NoNode, nil))
		}
		b = b.after(t).after(t)
		require.EqualValues(t, 7, b.setAgain(t, 8, 0), "from a failed connection, too")
	})
}

// The event is larger than the buffer of the connection. A client that accepts no such packet ends the connection.
func TestEventOfAVeryLongPathPasses(t *testing.T) {
	long := watch{watchData, "/" + strings.Repeat("x", 1<<17)}
	for limit, want := range map[int]int64{0: 8, 1 << 18: 8, 1 << 16: 6} {
		faketime.Test(t, func(t *testing.T) {
			b := watchingBench(t)
			b.exchange(t, watching(4, wiretest.GetData, long.path), wiretest.Reply(4, 6, 0, nil))
			b = b.after(t)
			require.EqualValues(t, 6, b.setAgain(t, 8, 0, data, exist, child))

			b.hooks.MaxReply = limit
			events := [][]byte{wiretest.Event(wiretest.Deleted, long.path), wiretest.Event(wiretest.Deleted, data.path)}
			b.serve(events...)
			for _, event := range events {
				got, err := b.next()
				require.NoError(t, err)
				require.Equal(t, event[4:], got)
			}
			require.Equal(t, want, b.after(t).setAgain(t, 9, 0, exist, child), "replies of %d bytes", limit)
		})
	}
}
