// SPDX-License-Identifier: Apache-2.0

//go:build unix

package register

import (
	"bufio"
	"errors"
	"fmt"
	"net"

	"github.com/lockkeeper/lockkeeper/fencing"
)

// A Client writes to the registers. It connects at its first write. It is not safe for concurrent use.
type Client struct {
	Addr string // of the registers

	conn net.Conn // nil before the first write
	in   *bufio.Reader
}

// Write sends a write under the grant of an attempt, and reports whether the fenced register accepted it. A failed write
// closes the connection; the next one opens another.
func (c *Client) Write(path, contender string, attempt int, token fencing.Token) (accepted bool, err error) {
	if c.conn == nil {
		if c.conn, err = net.Dial("tcp", c.Addr); err != nil {
			return false, err
		}
		c.in = bufio.NewReader(c.conn)
	}
	if _, err = fmt.Fprintln(c.conn, path, contender, attempt, int64(token)); err != nil {
		return false, errors.Join(err, c.Close())
	}
	answer, err := c.in.ReadString('\n')
	if err != nil {
		return false, errors.Join(err, c.Close())
	}
	return answer == "accepted\n", nil
}

// Close closes the connection. The next write opens another one.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}
