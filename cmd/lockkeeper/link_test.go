// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipe is a connection through a cut, and its other end.
func pipe(t *testing.T, c *cut) (near net.Conn, far net.Conn) {
	t.Helper()
	inner, far := net.Pipe()
	near = c.adopt(inner)
	t.Cleanup(func() {
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
	})
	return near, far
}

func TestConnectionThatIsNotCutPassesEverything(t *testing.T) {
	near, far := pipe(t, &cut{})
	go func() { _, _ = near.Write([]byte("ping")) }() // its outcome is what far reads
	buffer := make([]byte, 4)
	_, err := io.ReadFull(far, buffer)
	require.NoError(t, err)
	require.Equal(t, "ping", string(buffer))

	go func() { _, _ = far.Write([]byte("pong")) }()
	_, err = io.ReadFull(near, buffer)
	require.NoError(t, err)
	require.Equal(t, "pong", string(buffer))
}

func TestCutConnectionSwallowsBothWays(t *testing.T) {
	c := &cut{}
	near, far := pipe(t, c)
	c.sever()

	n, err := near.Write([]byte("ping"))
	require.NoError(t, err, "the sender is not told")
	require.Equal(t, 4, n)
	require.NoError(t, far.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = far.Read(make([]byte, 4))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing arrives")

	read := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 4))
		read <- err
	}()
	_, err = far.Write([]byte("pong")) // returns once it was read
	require.NoError(t, err, "the other side is not told")
	require.NoError(t, near.SetReadDeadline(time.Unix(1, 0)))
	require.ErrorIs(t, <-read, os.ErrDeadlineExceeded, "what was read is not passed on")
}

func TestCutLosesWhatAReadWasWaitingFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cut{}
		near, far := pipe(t, c)
		read := make(chan error, 1)
		go func() {
			_, err := near.Read(make([]byte, 4))
			read <- err
		}()
		synctest.Wait()
		c.sever()
		_, err := far.Write([]byte("pong"))
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, read)
		require.NoError(t, near.Close())
		require.ErrorIs(t, <-read, net.ErrClosed)
	})
}

func TestCutConnectionDoesNotHearThatTheOtherSideHasEndedIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cut{}
		near, far := pipe(t, c)
		c.sever()
		read := make(chan error, 1)
		go func() {
			_, err := near.Read(make([]byte, 4))
			read <- err
		}()
		require.NoError(t, far.Close())
		synctest.Wait()
		require.Empty(t, read)
		require.NoError(t, near.Close())
		require.ErrorIs(t, <-read, net.ErrClosed)
	})
}

func TestMendClosesWhatWasCutAndOnlyThat(t *testing.T) {
	c := &cut{}
	require.False(t, c.mend(), "nothing was cut")
	_, far := pipe(t, c)
	c.sever()
	require.Nil(t, c.adopt(nil), "no connection comes to be while severed")
	require.True(t, c.mend())
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	_, far = pipe(t, c)
	require.False(t, c.mend())
	require.NoError(t, far.SetReadDeadline(time.Unix(1, 0)))
	_, err = far.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestDialHangsWhileCutAndGoesOnWhenMended(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	address := listener.Addr().String()
	c := &cut{reach: (&net.Dialer{}).DialContext}
	c.sever()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = c.dial(ctx, "tcp", address)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	type result struct {
		conn net.Conn
		err  error
	}
	dialled := make(chan result)
	go func() {
		conn, err := c.dial(t.Context(), "tcp", address)
		dialled <- result{conn, err}
	}()
	c.mend()
	r := <-dialled
	require.NoError(t, r.err)
	require.NoError(t, r.conn.Close())
}
