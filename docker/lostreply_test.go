// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoseReplyLosesThatReplyOnly(t *testing.T) {
	p, s := newProxy(t)
	bystander := dialProxy(t, p)
	bystander.echo([]byte("hello"))
	c := dialProxy(t, p)
	c.echo([]byte("hello"))

	const create = 1
	happened := p.LoseReply(func(frame []byte) bool {
		return len(frame) >= 8 && binary.BigEndian.Uint32(frame[4:]) == create
	})
	// In one write, so that the replies arrive together: those before it are forwarded.
	var b bytes.Buffer
	for _, frame := range [][]byte{request(1, 3, "a"), request(2, create, "b"), request(3, 3, "c")} {
		require.NoError(t, writeFrame(&b, frame))
	}
	_, err := c.Write(b.Bytes())
	require.NoError(t, err)
	<-happened
	eventually(t, "the server has done it", func() bool { return s.served.Load() >= 4 })
	// What was delivered before a reset may be lost with it, but nothing after it arrives.
	if answer, err := readFrame(c); err == nil {
		require.Equal(t, request(1, 3, "a"), answer)
		_, err = readFrame(c)
		require.ErrorIs(t, err, syscall.ECONNRESET)
	} else {
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
	bystander.echo(request(9, create, "once only"))
	dialProxy(t, p).echo([]byte("hello"))
}

func TestLoseReplyForwardsEarlierReplies(t *testing.T) {
	p, _ := newProxy(t)
	c := dialProxy(t, p)
	c.echo([]byte("hello"))
	happened := p.LoseReply(func(frame []byte) bool { return string(frame[8:]) == "lose" })
	for xid := range int32(50) {
		c.echo(request(xid, 1, "keep"))
	}
	require.NoError(t, writeFrame(c, request(50, 1, "lose")))
	<-happened
	c.isReset()
}

func TestLoseReplyCanLoseHandshake(t *testing.T) {
	p, s := newProxy(t)
	happened := p.LoseReply(func([]byte) bool { return true })
	c := dialProxy(t, p)
	require.NoError(t, writeFrame(c, []byte("hello")))
	<-happened
	c.isReset()
	require.EqualValues(t, 1, s.served.Load())
}

func TestHealCancelsPendingLoss(t *testing.T) {
	p, _ := newProxy(t)
	happened := p.LoseReply(func([]byte) bool { return true })
	p.Heal()
	dialProxy(t, p).echo([]byte("hello"))
	select {
	case <-happened:
		require.Fail(t, "a reply was lost")
	default:
	}
}

func TestFramerFollowsFramesAcrossReads(t *testing.T) {
	var stream bytes.Buffer
	var want []string
	for _, s := range []string{"", "a", "hello", string(make([]byte, 70000)), ""} {
		require.NoError(t, writeFrame(&stream, []byte(s)))
		want = append(want, s)
	}
	for _, size := range []int{1, 2, 3, 7, 4096, stream.Len()} {
		var f framer
		var got []string
		for rest := stream.Bytes(); len(rest) > 0; {
			part := rest[:min(size, len(rest))]
			rest = rest[len(part):]
			for len(part) > 0 {
				frame, n := f.next(part)
				if n <= 0 { // for each byte, require takes seconds
					require.Positive(t, n)
				}
				part = part[n:]
				if frame != nil {
					got = append(got, string(frame))
				}
			}
		}
		require.Equal(t, want, got, "in pieces of %d", size)
		require.Equal(t, len(want), f.seen)
	}
}

func TestFramerPassesInvalidFramesUnchanged(t *testing.T) {
	var f framer
	frame, n := f.next([]byte("srvr"))
	require.Nil(t, frame)
	require.Equal(t, 4, n)
	frame, n = f.next([]byte("Zookeeper version"))
	require.Nil(t, frame)
	require.Equal(t, 17, n)
	require.Zero(t, f.seen)
}
