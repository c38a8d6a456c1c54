// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/faketime"
)

// one is a listener that accepts one connection.
type one struct {
	conns chan net.Conn
	ctx   context.Context
}

func (l *one) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (l *one) Close() error { return nil }

func (l *one) Addr() net.Addr { return &net.TCPAddr{} }

// The comments of newServer state the times. What a handler does about bodies and streams is tested with the routes.
func TestSlowClientIsDisconnected(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for name, c := range map[string]struct {
		sends string
		reads bool // the answer
		after time.Duration
	}{
		"sends no head":              {"", false, 5 * time.Second},
		"sends a part of a head":     {request[:20], true, 5 * time.Second},
		"reads no answer":            {request, false, time.Minute},
		"sends no second request":    {request, true, 2 * time.Minute},
		"sends a part of its second": {request + request[:20], true, 5 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			faketime.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				client, server := net.Pipe()
				conns := make(chan net.Conn, 1)
				conns <- server
				s := newServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write(make([]byte, 1<<20)) // the client may have gone
				}), &files{}, slog.New(slog.DiscardHandler))
				ended, closed := make(chan error, 1), make(chan struct{})
				s.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateClosed {
						close(closed)
					}
				}
				go func() { ended <- s.Serve(&one{conns, ctx}) }()
				began := time.Now()
				go func() { _, _ = io.WriteString(client, c.sends) }() // the server may read none of it
				if c.reads {
					go func() { _, _ = io.Copy(io.Discard, client) }() // until the server closes the connection
				}
				<-closed
				require.Equal(t, c.after, time.Since(began))
				require.NoError(t, client.Close())
				cancel()
				require.ErrorIs(t, <-ended, net.ErrClosed)
			})
		})
	}
}
