// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockkeeper/lockkeeper/internal/background"
)

// errEnded is the error of a request that the guardian had not answered when the connection ended.
var errEnded = errors.New("the guardian has ended")

// A link is a process's connection to its guardian. Requests are sent in order, by a goroutine of the link: a guardian that is
// stopped delays no caller. It is safe for concurrent use.
type link struct {
	conn  *net.UnixConn
	sends *background.Mailbox
	ended chan struct{} // closed when the connection and the goroutines have ended

	mu      sync.Mutex // guards what follows
	number  int64      // of the last request
	pending map[int64]func(error)
	over    bool
}

// newLink returns a link that has said hello. The end of ctx ends the attempt.
func newLink(ctx context.Context, conn *net.UnixConn) (*link, error) {
	l := &link{conn: conn, sends: background.NewMailbox(), ended: make(chan struct{}), pending: map[int64]func(error){}}
	go l.run()
	answered := make(chan error, 1)
	l.post(message{Kind: hello, Version: version}, func(err error) { answered <- err }, sendHello)
	var err error
	select {
	case err = <-answered:
	case <-ctx.Done():
		err = fmt.Errorf("the guardian does not answer: %w", ctx.Err())
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// close ends the connection and waits for the goroutines.
func (l *link) close() {
	_ = l.conn.Close() // nothing depends on it
	<-l.ended
}

// send sends a request, and reports whether it does so. If so, done is called once, on another goroutine, with the answer or
// errEnded.
func (l *link) send(m message, done func(error)) bool {
	return l.post(m, done, func(conn *net.UnixConn, line []byte) error {
		if _, err := conn.Write(line); err != nil {
			return fmt.Errorf("%w: %w", errEnded, err)
		}
		return nil
	})
}

func (l *link) post(m message, done func(error), write func(*net.UnixConn, []byte) error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	l.number++
	m.Number = l.number
	l.pending[m.Number] = done
	l.sends.Post(func() {
		line, err := m.encode()
		if err != nil {
			l.settle(m.Number, fmt.Errorf("encode a request to the guardian: %w", err))
			return
		}
		if err := write(l.conn, line); err != nil {
			_ = l.conn.CloseWrite() // nothing can follow a part of a request; answers on their way are read
			l.settle(m.Number, fmt.Errorf("send to the guardian: %w", err))
		}
	}, background.Unbounded)
	return true
}

// settle calls the function of the request with that number.
func (l *link) settle(number int64, err error) {
	l.mu.Lock()
	done := l.pending[number]
	delete(l.pending, number)
	l.mu.Unlock()
	if done != nil {
		done(err)
	}
}

// run passes answers on until the connection ends.
func (l *link) run() {
	defer close(l.ended)
	var input lines
	buffer := make([]byte, 1<<12)
	for err := error(nil); err == nil; {
		var n int
		if n, err = l.conn.Read(buffer); err == nil {
			err = input.decode(buffer[:n], func(m message) {
				var refusal error
				if m.Err != "" {
					refusal = errors.New(m.Err)
				}
				l.settle(m.Number, refusal)
			})
		}
	}
	_ = l.conn.Close() // nothing depends on it
	l.sends.Close()
	<-l.sends.Stopped()
	l.mu.Lock()
	pending := l.pending
	l.pending, l.over = nil, true
	l.mu.Unlock()
	for _, done := range pending {
		done(errEnded)
	}
}
