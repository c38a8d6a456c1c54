// SPDX-License-Identifier: Apache-2.0

// Package guard closes the ZooKeeper sessions of a process immediately after its death, so that its locks and terms pass on without
// waiting for the session timeout T.
//
//	func main() {
//		guard.Main(nil) // the first line: the guardian is this program, started again
//		…
//		g, err := guard.Start(ctx)
//		…
//		client, err := recipes.Connect(ctx, servers, &recipes.Options{Guard: g})
//
// Guarantee: a guardian never closes the session of a process that lives. It acts only on a pidfd, a descriptor that refers to the
// process whatever becomes of its number, its socket or its program. After the death of the process it closes the sessions, usually
// within milliseconds, in 0.05 T at T ≥ 4 s. Conditions: Linux 5.4, at most 1 GB of memory (each further GB takes 0.1 s), processors that
// are not saturated, and a guardian that lives. Failure: the sessions expire after T, as without a guardian.
//
//	what happens to the process                    effect
//	it is killed, panics, or exits without Close   its sessions are closed
//	it is stopped, or its cgroup is frozen         none; a kill while it is stopped has its effect
//	it closes the socket, or forks with it         none; a later kill has its effect
//	it executes another program                    none until that ends: the sessions expire
//	it is PID 1 of a container                     the guardian is killed first: use lockkeeper guard as PID 1, or a sidecar
//	its whole container is killed                  only a sidecar closes the sessions: Dial
//	its guardian is killed                         another one gets all sessions; Client.State says when one is not guarded
//	it dumps its core                              the sessions are closed after that
//	its host dies                                  the sessions expire
//
// A session is used only once the guardian has acknowledged it: otherwise Connect returns an error. A later session of the client
// waits T/24 for that, and is then used without a guardian: see Trace.Unguarded. Connect also returns an error where a rehearsal fails:
// servers that need TLS or another Options.Dial, unless Main has the same dial function, a login by SASL, or that open new sessions
// in place of those that are presented, as ClickHouse Keeper does.
//
// Expiry gave writes of the dead process T to drain. Writes to ZooKeeper never follow the close; for any other store, LockDelay gives
// that time back. Child processes of the process live on: lockkeeper run --guard kills those of its command first. Leases have no session.
//
// The guardian inherits the environment. init functions run in it too. A program that waits for all its children sees it among them.
package guard

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/guardian"
)

// DialFunc opens a connection to a server, as [recipes.Options.Dial] does. It returns one that has
// completed a TLS handshake if the servers require TLS.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// Main makes this process a guardian if Start has started it, and then does not return. In every other process it returns
// immediately. It must be the first line of main, and of a TestMain: what precedes it, as the init functions do, runs in the
// guardian too. dial connects the guardian to the servers; nil is plain TCP.
func Main(dial DialFunc) { guardian.Main(dial) }

// A Guard registers the sessions of clients with a guardian: see [recipes.Options.Guard]. When the guardian has ended, a Guard
// starts another one or connects again, and registers all sessions there. It is safe for concurrent use.
type Guard struct{ engine *guardian.Guard }

// Start starts a guardian for this process, as its child. There is at most one, for any number of clients. ctx bounds only the call.
// It is an error if Main was not called, or if the system is not Linux or refuses pidfds.
func Start(ctx context.Context) (*Guard, error) { return of(guardian.Start(ctx)) }

// Dial connects this process to the guardian that serves a Unix socket: Serve, lockkeeper guard --socket, or, by default, the
// lockkeeper guard that has started this process. ctx bounds only the call.
func Dial(ctx context.Context, socket string) (*Guard, error) { return of(guardian.Dial(ctx, socket)) }

func of(g *guardian.Guard, err error) (*Guard, error) {
	if err != nil {
		return nil, err
	}
	return &Guard{g}, nil
}

// Serve is the guardian of every process that connects to l, until ctx is done. Then it closes l, completes the closing of
// sessions whose process has died, leaves all others open, and returns the error of ctx. It logs what it cannot do to [slog.Default]. dial connects it to the servers; nil is plain TCP.
func Serve(ctx context.Context, l *net.UnixListener, dial DialFunc) error {
	return guardian.Serve(ctx, l, dial, func(err error) { slog.Warn("guardian", "error", err) })
}

// Close kills a guardian that Start has started, and otherwise closes the connection. Sessions are then no longer guarded by the
// child, and remain so by the guardian of a socket. Close the clients first.
func (g *Guard) Close() error { return g.engine.Close() }

// Rehearse has the guardian open a session of its own and close it as after a death. A client calls it before its first session.
func (g *Guard) Rehearse(ctx context.Context, servers []string, timeout time.Duration) error {
	return g.engine.Rehearse(ctx, servers, timeout)
}

// Protect registers a session, and returns nil once the guardian has acknowledged it. After an error, which is ctx's or that of a
// closed Guard, the session remains registered until Forget, and the guardian may acknowledge it later.
func (g *Guard) Protect(ctx context.Context, servers []string, session int64, password []byte, timeout time.Duration) error {
	return g.engine.Protect(ctx, servers, session, password, timeout)
}

// Forget reports that a session has ended. The guardian forgets it after twice its timeout.
func (g *Guard) Forget(session int64) { g.engine.Forget(session) }

// Guarded returns nil if the guardian has acknowledged the session, and otherwise why it has not.
func (g *Guard) Guarded(session int64) error { return g.engine.Guarded(session) }
