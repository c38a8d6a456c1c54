// SPDX-License-Identifier: Apache-2.0

package session

import (
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/internal/wire"
)

// giveBack has the ZooKeeper client fail the requests that stand in its queue, which
// came there as its connection ended and were not sent.
//
// go-zookeeper v1.0.4 gives them back after a full round of the servers only, and then
// pauses for a second, in which a session with a short timeout is lost. So the next
// connection is made to a goroutine that repeats the last handshake of a server, answers
// Each request with an error that no server sends, zk.ErrNothing, and ends the connection
// as soon as no more come.
func (d *dialer) giveBack() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.giving = true
}

// isReturning reports whether the client is connected to what gives requests back.
func (d *dialer) isReturning() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.returns
}

// returning is such a connection.
func (d *dialer) returning(hello []byte) net.Conn {
	client, server := net.Pipe()
	quiet := max(d.negotiated()/480, time.Millisecond)
	d.blocking.Run(func() { wire.GiveBack(server, hello, quiet) })
	return client
}

// negotiated is T, as the dialer knows it.
func (d *dialer) negotiated() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.timeout
}
