// SPDX-License-Identifier: Apache-2.0

package suite

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/docker"
)

// terminator terminates TLS in front of a server, as a sidecar does, until the test ends. It returns its address.
func (s *env) terminator(server *docker.Server, cert tls.Certificate) string {
	s.T.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	require.NoError(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { passOn(ctx, client, server.Addr()) })
		}
	})
	s.T.Cleanup(func() {
		cancel()
		_ = listener.Close() // ends the loop
		running.Wait()
	})
	return listener.Addr().String()
}

// passOn copies between a client and a server until one of them closes its connection or ctx ends.
func passOn(ctx context.Context, client net.Conn, addr string) {
	defer func() { _ = client.Close() }() // it may be closed already
	server, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // an error ends the connection, too
			ended <- struct{}{}
		}()
	}
	left := 2
	select {
	case <-ended:
		left--
	case <-ctx.Done():
	}
	_, _ = client.Close(), server.Close()
	for range left {
		<-ended
	}
}
