// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Variable is the environment variable with the socket of a guardian.
const Variable = "LOCKKEEPER_GUARD"

// Dial connects to the guardian that serves a socket, by default that of Variable.
func Dial(ctx context.Context, socket string) (*Guard, error) {
	if socket == "" {
		socket = os.Getenv(Variable)
	}
	if socket == "" {
		return nil, errors.New("no socket of a guardian: " + Variable + " is not set")
	}
	g, err := newGuard(ctx, func(ctx context.Context) (*link, func(), error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, nil, err
		}
		l, err := newLink(ctx, conn.(*net.UnixConn))
		return l, func() {}, err
	}, func() {})
	if err != nil {
		return nil, fmt.Errorf("connect to the guardian at %s: %w", socket, err)
	}
	return g, nil
}

// pauseOfAccept is the pause before another attempt to accept a connection for which there was no descriptor or no memory.
const pauseOfAccept = 100 * time.Millisecond

// isExhausted reports whether a connection was not accepted for want of descriptors or memory. It waits at the listener.
func isExhausted(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) || errors.Is(err, syscall.ENOBUFS)
}

// Serve is the guardian of each process that connects to l. When ctx is done, it closes l, closes the sessions of processes that
// have died, leaves those of others, and returns the error of ctx. report is called with the reason why a session was not closed, or a process
// not registered.
func Serve(ctx context.Context, l *net.UnixListener, dial DialFunc, report func(error)) error {
	var parents sync.WaitGroup
	defer parents.Wait()
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // Accept then fails
	defer stop()
	for exhausted := false; ; {
		conn, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // nothing was written
			}
			return ctx.Err()
		case isExhausted(err):
			if !exhausted { // once for all attempts until one succeeds
				report(fmt.Errorf("accept: %w", err))
			}
			exhausted = true
			pause(ctx, pauseOfAccept) // an end would leave every process without a guardian
			continue
		case err != nil:
			return errors.Join(fmt.Errorf("accept: %w", err), l.Close())
		}
		exhausted = false
		parents.Go(func() {
			if err := watch(bounded, conn, orTCP(dial)); err != nil && !errors.Is(err, context.Canceled) {
				report(err)
			}
		})
	}
}
