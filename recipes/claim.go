// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/fencing"
	"github.com/lockkeeper/lockkeeper/internal/claim"
)

// A Claim is a position in the queue that reached the front. A lock's hold and an
// election's term each consist of one.
//
// While Done is open, no claim that excludes this one is granted, on four
// conditions. An exclusive claim excludes every other of the queue; for others, see
// Shared. The conditions are: the session timeout T is at least four of the servers'
// ticks; the leader pings its followers on time; this process is scheduled; and its
// clock runs at the rate of the leader's. A process that is paused, or a machine that is
// suspended, can act after it lost the claim and before it can know; only a
// resource that checks the token is safe from that. If an operator deletes the
// claim's node, the claim ends when the client detects that, within T/6 as a rule.
// By then another contender may have been granted the claim.
//
// A claim is used once: a claim that has ended stays ended. All methods are safe
// for concurrent use.
type Claim struct{ hold } //nolint:unused // package claim calls its methods, by an interface

// A hold refers to the internal package that does the work. It has no exported methods.
type hold = claim.Ref //nolint:unused // likewise

// Token returns the claim's fencing token: the zxid with which its node was created.
// It is greater than the token of every earlier claim of the same path, within one
// history of the ensemble. It does not change. A slot's token is the zxid of its grant,
// and orders the holders of its number only. Claims of different paths can have equal tokens.
func (c *Claim) Token() fencing.Token { return claim.Of(c).Token() }

// Path returns the path of the claim's own node, namespace included.
func (c *Claim) Path() string { return claim.Of(c).Path() }

// Done returns a channel that is closed when the claim has ended: lost, or released
// by its holder.
//
// After a loss of contact, Done is closed before ZooKeeper can grant the claim to
// another contender, on the conditions that the type's documentation names.
func (c *Claim) Done() <-chan struct{} { return claim.Of(c).Done() }

// Err returns nil while the claim is held. After the claim has ended it returns an
// error for which errors.Is finds ErrLost and one of ErrSessionExpired, ErrDeadline,
// ErrDeleted, ErrRevoked, ErrReleased and ErrClosed.
//
// It checks the clock: a call after the deadline itself ends the claim.
func (c *Claim) Err() error { return claim.Of(c).Err() }

// Deadline returns the instant at which the claim ends unless there is a new proof
// that its session is alive. Proofs arrive every T/6, and each extends the deadline
// as a rule. Once the claim has ended, the result has no meaning.
func (c *Claim) Deadline() time.Time { return claim.Of(c).Deadline() }

// Shared reports whether the claim is a reader's or one of permits: others like it may hold the
// same queue. A writer's claim becomes shared by Downgrade.
//
// The token of a shared claim orders it among the exclusive claims: a resource admits it with
// fencing.Gate.AdmitShared, which refuses it after a later writer.
func (c *Claim) Shared() bool { return claim.Of(c).Shared() }

// Context returns a copy of parent that is done when parent is, or when the
// claim ends; context.Cause then returns the same error as Err. Call the function when
// the context is no longer needed.
func (c *Claim) Context(parent context.Context) (context.Context, context.CancelFunc) {
	return claim.Of(c).Context(parent)
}

// Check asks the ensemble whether the claim is held, with one write through its
// quorum that changes nothing. It returns nil if the claim was held when the write
// was carried out, ErrLost if the claim is no longer held, and otherwise the error
// that prevented the check. It returns when the claim ends, even if no server answers. The claim can be lost between the answer and the
// caller's next action: Check does not replace the token.
func (c *Claim) Check(ctx context.Context) error { return claim.Of(c).Check(ctx) }

// Commit carries out ZooKeeper operations if, and only if, the claim is held: it
// sends them in one transaction with a check that the claim's own node still
// exists. This fences state that is kept in ZooKeeper itself, without a token: once
// the node is gone, no such write is carried out, and so none after another client
// has been granted the claim, even if this process was paused or an operator
// deleted the node. Package epoch adds a number that other programs can read, and
// that an operator can raise to end what it counts.
//
// Each op is a *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or
// *zk.CheckVersionRequest. Its path is absolute and below the client's namespace,
// as in every other call; "/" is the namespace's own node. Commit does not change
// ops. The responses are in the order of ops; the String of a create is a path
// below the namespace as well.
//
// If the server refused an operation, the error is the server's, in an Error that
// has the full path of that operation and names its kind; the responses show which
// one it was. Commit sends the transaction once: an ErrUncertain means that ctx
// ended or the connection broke before the answer arrived, and that the operations
// were carried out as a whole, or not at all; if the claim was lost meanwhile, the
// error is ErrLost as well. After any other error, nothing was changed.
func (c *Claim) Commit(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	h := claim.Of(c)
	return h.Commit(ctx, h.Session().Client().Namespace(), ops)
}
