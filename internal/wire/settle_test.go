// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
	"github.com/lockkeeper/lockkeeper/internal/wiretest"
)

func isSettled(settled <-chan struct{}) bool {
	select {
	case <-settled:
		return true
	default:
		return false
	}
}

func TestSettledWirePassesOnlyTheAnswerToTheClose(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.shake(t)
		for _, r := range []struct{ xid, op int32 }{{1, wiretest.Create}, {2, wiretest.GetData}, {3, opClose}} {
			_, err := b.Write(request(r.xid, r.op))
			require.NoError(t, err)
		}
		require.True(t, isSettled(b.Settle()), "the client decodes nothing")
		require.True(t, isSettled(b.Settle()))
		b.serve(
			wiretest.Reply(1, 5, 0, make([]byte, 40_000)), wiretest.Reply(xidWatchEvent, -1, 0, []byte("event")),
			wiretest.Reply(2, 5, -101, nil), wiretest.Reply(3, 6, 0, nil),
		)
		frame, err := b.next()
		require.NoError(t, err)
		require.EqualValues(t, 3, binary.BigEndian.Uint32(frame))
	})
}

func TestWireIsSettledOnceTheClientHasDecodedTheFrameThatItReads(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.shake(t)
		b.serve(wiretest.Reply(1, 5, 0, []byte("answer")))
		_, err := io.ReadFull(b, make([]byte, 4))
		require.NoError(t, err)
		settled := b.Settle()
		require.False(t, isSettled(settled), "it reads the frame")
		_, err = io.ReadFull(b, make([]byte, 16+len("answer")))
		require.NoError(t, err)
		require.False(t, isSettled(settled), "it decodes the frame")
		b.reading()
		synctest.Wait()
		require.True(t, isSettled(settled))
	})
}

func TestWireIsSettledWhenTheConnectionEnds(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		b := newWireBench(t, time.Second)
		b.shake(t)
		b.serve(wiretest.Reply(1, 5, 0, make([]byte, 1000))[:100])
		read := b.reading()
		synctest.Wait()
		settled := b.Settle()
		require.False(t, isSettled(settled))
		b.Sever()
		require.Error(t, <-read)
		require.True(t, isSettled(settled))
	})
}
