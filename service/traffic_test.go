// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A traffic is a proxy in front of a ZooKeeper server that counts what passes.
type traffic struct {
	listener net.Listener
	running  sync.WaitGroup

	sentFrames, receivedBytes atomic.Int64

	began    time.Time // of the interval that was counted last
	took     time.Duration
	requests int64 // in it, pings included
	received int64 // in it, bytes
}

// countTraffic starts a proxy in front of the server. It stops when the test ends.
func countTraffic(tb testing.TB, server string) *traffic {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	p := &traffic{listener: listener, began: time.Now()}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.pass(client, server) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		p.running.Wait()
	})
	return p
}

func (p *traffic) addr() string { return p.listener.Addr().String() }

// pass passes packets on until either side closes its connection.
func (p *traffic) pass(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return // the client tries again
	}
	p.running.Go(func() {
		defer func() { _ = server.Close() }()
		for {
			var size [4]byte
			if _, err := io.ReadFull(client, size[:]); err != nil {
				return
			}
			frame := make([]byte, 4+binary.BigEndian.Uint32(size[:]))
			copy(frame, size[:])
			if _, err := io.ReadFull(client, frame[4:]); err != nil {
				return
			}
			p.sentFrames.Add(1)
			if _, err := server.Write(frame); err != nil {
				return
			}
		}
	})
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		p.receivedBytes.Add(int64(n))
		if _, writeErr := client.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// count ends an interval, and begins the next one.
func (p *traffic) count() {
	now := time.Now()
	p.took, p.began = now.Sub(p.began), now
	p.requests, p.received = p.sentFrames.Swap(0), p.receivedBytes.Swap(0)
}

// perSecond returns n for each second of the interval.
func (p *traffic) perSecond(n int64) float64 { return float64(n) / p.took.Seconds() }

// String describes the interval.
func (p *traffic) String() string {
	return fmt.Sprintf("%d requests and %d kB received in %.2f s", p.requests, p.received/1000, p.took.Seconds())
}
