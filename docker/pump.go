// SPDX-License-Identifier: Apache-2.0

package docker

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// piece is the result of one read; with err, the end of the connection.
type piece struct {
	bytes []byte
	err   error
	due   time.Time
}

// pump forwards one direction: a reader, which never waits for the other side and so records
// when bytes arrived, and a writer, which delays, drops or forwards them.
func (l *link) pump(running *sync.WaitGroup, way Direction, from, to net.Conn) {
	if from == nil {
		return
	}
	pieces := make(chan piece, 1024)
	running.Go(func() { l.read(way, from, pieces) })
	running.Go(func() { l.deliver(way, to, pieces) })
}

func (l *link) read(way Direction, from net.Conn, pieces chan<- piece) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		pc := piece{bytes: append([]byte(nil), buf[:n]...), err: err, due: time.Now().Add(l.proxy.delayOf(way))}
		select {
		case pieces <- pc:
		case <-l.done:
			return
		}
		if err != nil {
			return
		}
	}
}

func (l *link) deliver(way Direction, to net.Conn, pieces <-chan piece) {
	flow := flow{link: l, way: way, to: to}
	for {
		var pc piece
		select {
		case pc = <-pieces:
		case <-l.done:
			return
		}
		if wait := time.Until(pc.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-l.done:
				return
			}
		}
		if l.drops(way, pc.err != nil) {
			if pc.err != nil {
				return
			}
			continue
		}
		if len(pc.bytes) > 0 && !flow.pass(pc.bytes) {
			l.end(true)
			return
		}
		if pc.err != nil {
			l.end(!errors.Is(pc.err, io.EOF))
			return
		}
	}
}
