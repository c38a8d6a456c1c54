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

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

// pipe returns a connection on the link, and its other end.
func pipe(t *testing.T, l *link) (near net.Conn, far net.Conn) {
	t.Helper()
	inner, far := net.Pipe()
	near = l.wrap(inner)
	t.Cleanup(func() {
		require.NoError(t, near.Close())
		require.NoError(t, far.Close())
	})
	return near, far
}

func TestLinkWithoutPartitionPassesData(t *testing.T) {
	near, far := pipe(t, &link{})
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

func TestPartitionDropsDataBothWays(t *testing.T) {
	l := &link{}
	near, far := pipe(t, l)
	l.partition()

	n, err := near.Write([]byte("ping"))
	require.NoError(t, err, "the sender gets no error")
	require.Equal(t, 4, n)
	require.NoError(t, far.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err = far.Read(make([]byte, 4))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "nothing arrives")

	read := make(chan error)
	go func() {
		_, err := near.Read(make([]byte, 4))
		read <- err
	}()
	_, err = far.Write([]byte("pong")) // returns after it was read
	require.NoError(t, err, "the other side gets no error")
	require.NoError(t, near.SetReadDeadline(time.Unix(1, 0)))
	require.ErrorIs(t, <-read, os.ErrDeadlineExceeded, "data that arrived is not passed on")
}

func TestPartitionDropsDataOfPendingRead(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := &link{}
		near, far := pipe(t, l)
		read := make(chan error, 1)
		go func() {
			_, err := near.Read(make([]byte, 4))
			read <- err
		}()
		synctest.Wait()
		l.partition()
		_, err := far.Write([]byte("pong"))
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, read)
		require.NoError(t, near.Close())
		require.ErrorIs(t, <-read, net.ErrClosed)
	})
}

func TestPartitionedConnectionDoesNotSeeRemoteClose(t *testing.T) {
	faketime.Test(t, func(t *testing.T) {
		l := &link{}
		near, far := pipe(t, l)
		l.partition()
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

func TestHealClosesOnlyPartitionedConnections(t *testing.T) {
	l := &link{}
	require.False(t, l.heal(), "there was no partition")
	_, far := pipe(t, l)
	l.partition()
	require.Nil(t, l.wrap(nil), "no connection is made during a partition")
	require.True(t, l.heal())
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	_, far = pipe(t, l)
	require.False(t, l.heal())
	require.NoError(t, far.SetReadDeadline(time.Unix(1, 0)))
	_, err = far.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestDialWaitsDuringPartitionAndSucceedsAfterHeal(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, listener.Close()) }()
	address := listener.Addr().String()
	l := &link{dialServer: (&net.Dialer{}).DialContext}
	l.partition()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = l.dial(ctx, "tcp", address)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	type result struct {
		conn net.Conn
		err  error
	}
	dialled := make(chan result)
	go func() {
		conn, err := l.dial(t.Context(), "tcp", address)
		dialled <- result{conn, err}
	}()
	l.heal()
	r := <-dialled
	require.NoError(t, r.err)
	require.NoError(t, r.conn.Close())
}
