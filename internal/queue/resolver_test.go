// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/need"
	"github.com/lockkeeper/lockkeeper/internal/queue"
	"github.com/lockkeeper/lockkeeper/recipes"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// A names is a server of DNS: each name has one address, which can change.
type names struct {
	address atomic.Pointer[net.IP] // of IPv4
	asked   atomic.Int32           // for an address
	serving sync.WaitGroup
}

// dial is a net.Resolver's.
func (n *names) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe() // without packets: as by TCP, each message follows its length
	n.serving.Go(func() {
		defer server.Close() //nolint:errcheck // never fails
		n.serve(server)
	})
	return client, nil
}

// serve answers until the resolver closes the connection.
func (n *names) serve(conn net.Conn) {
	for {
		var size uint16
		if binary.Read(conn, binary.BigEndian, &size) != nil {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		const header, ofAddress = 12, 1
		end := header + bytes.IndexByte(query[header:], 0) + 1 // of the name
		question := query[header : end+4]
		answer := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question...)
		if binary.BigEndian.Uint16(query[end:]) == ofAddress {
			n.asked.Add(1)
			answer[7] = 1                                                               // one record:
			answer = append(answer, 0xc0, header, 0, ofAddress, 0, 1, 0, 0, 0, 0, 0, 4) // the name above, its type and class, no time to live
			answer = append(answer, *n.address.Load()...)
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil { //nolint:gosec // short
			return
		}
	}
}

// A forwarder is a second address of a server.
type forwarder struct {
	net.Listener
	running sync.WaitGroup
	mu      sync.Mutex // guards conns
	conns   []net.Conn
}

func (f *forwarder) serve(to string) {
	for {
		in, err := f.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(context.Background(), "tcp", to)
		if err != nil {
			_ = in.Close() // the client sees the end
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, in, out)
		f.mu.Unlock()
		for _, from := range [][2]net.Conn{{in, out}, {out, in}} {
			f.running.Go(func() { _, _ = io.Copy(from[0], from[1]) })
		}
	}
}

// close ends the address and its connections.
func (f *forwarder) close() {
	_ = f.Close()
	f.mu.Lock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.running.Wait()
}

func TestDefaultDialResolvesTheNamesOfServersAtEachAttempt(t *testing.T) {
	servers := zktest.Start(t, nil)
	_, port, err := net.SplitHostPort(servers.Addrs()[0])
	require.NoError(t, err)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:"+port)
	if err != nil {
		need.Lacking(t, "this machine has no second address: %v", err)
	}
	first, other := net.IPv4(127, 0, 0, 2).To4(), net.IPv4(127, 0, 0, 1).To4()
	dns := &names{}
	dns.address.Store(&first)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: dns.dial}
	defer func() { net.DefaultResolver = before; dns.serving.Wait() }()
	second := &forwarder{Listener: listener}
	second.running.Go(func() { second.serve(servers.Addrs()[0]) })
	defer second.close()

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client, err := recipes.Connect(ctx, []string{"zk.example.org.:" + port}, &recipes.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer client.Close()
	queue, err := queue.New(client, "/l", nil)
	require.NoError(t, err)
	claim, err := queue.Claim(ctx)
	require.NoError(t, err)
	asked := dns.asked.Load()
	require.Positive(t, asked)

	dns.address.Store(&other)
	second.close()
	require.NoError(t, claim.Check(ctx), "the claim continues at the name's other address")
	require.Greater(t, dns.asked.Load(), asked)
	require.NoError(t, queue.Release(ctx, claim))
}
