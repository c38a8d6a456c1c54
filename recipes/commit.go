// SPDX-License-Identifier: Apache-2.0

package recipes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

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
// ops. The responses are those of ops, in order; the String of a create is a path
// below the namespace as well.
//
// If the server refused an operation, the error is the server's, in an Error that
// has the full path of that operation and names its kind; the responses show which
// one it was. Commit sends the transaction once: an ErrUncertain means that ctx
// ended or the connection broke before the answer arrived, and that the operations
// were carried out as a whole, or not at all. After an ErrLost, and after any other
// error, nothing was changed.
func (c *Claim) Commit(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	return c.commit(ctx, c.session.Client().Namespace(), ops)
}

// commit is Commit with operations whose paths are below namespace.
func (c *Claim) commit(ctx context.Context, namespace string, ops []any) ([]zk.MultiResponse, error) {
	fail := func(err error) ([]zk.MultiResponse, error) {
		return nil, &Error{Op: "commit", Path: c.Path(), Err: err}
	}
	if ctx == nil {
		return fail(sentinel.ErrNilContext)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	parsed, err := parseOps(namespace, c.place.Path, ops)
	if errors.As(err, new(*Error)) {
		return nil, err
	}
	if err != nil {
		return fail(err)
	}
	responses, err := c.sendCommit(ctx, parsed)
	for c.rewritten(responses, err) {
		responses, err = c.sendCommit(ctx, parsed)
	}
	switch session.OutcomeOf(err) {
	case session.Done:
		responses = responses[1:]
		for i := range responses {
			responses[i].String = strings.TrimPrefix(responses[i].String, namespace)
		}
		return responses, nil
	case session.Refused:
		return c.refused(parsed, responses, err)
	case session.Unsent:
		if ended := c.Err(); ended != nil {
			return nil, ended
		}
	case session.Unknown:
		if !errors.Is(err, sentinel.ErrUncertain) {
			err = fmt.Errorf("%w: %w", sentinel.ErrUncertain, err)
		}
	}
	return fail(sentinel.WithCtx(ctx, err))
}

// sendCommit sends the operations in one transaction, behind a check of the claim's own node.
func (c *Claim) sendCommit(ctx context.Context, ops []operation) ([]zk.MultiResponse, error) {
	own := &zk.CheckVersionRequest{Path: c.place.Path, Version: c.place.Version()}
	requests := []any{own}
	for _, op := range ops {
		requests = append(requests, op.request)
	}
	return session.CallAs(ctx, c.session.Session, session.Holder, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(requests...)
	})
}

// rewritten reports whether the transaction was refused only because the claim was downgraded
// after the version of its node was read. If the node was overwritten otherwise, it ends the claim.
func (c *Claim) rewritten(responses []zk.MultiResponse, err error) bool {
	if err == nil || len(responses) == 0 || !errors.Is(responses[0].Error, zk.ErrBadVersion) {
		return false
	}
	_, cause := c.session.MarkOverwritten(c.place.Node)
	return cause == nil
}

// refused returns the result of a transaction that the server refused with err. The first of
// responses is that of the check of the claim's own node.
func (c *Claim) refused(ops []operation, responses []zk.MultiResponse, err error) ([]zk.MultiResponse, error) {
	fail := &Error{Op: "commit", Path: c.Path(), Err: err}
	switch {
	case errors.Is(err, zk.ErrSessionExpired):
		c.session.End(session.ErrExpired)
		c.end(session.ErrExpired) // another goroutine may have detected it first and be about to end the claim
		return nil, c.ended()
	case len(responses) == 0:
		return nil, fail
	}
	switch own := responses[0].Error; {
	case errors.Is(own, zk.ErrNoNode):
		c.session.MarkLost(c.place.Node)
		c.end(sentinel.ErrDeleted)
		return nil, c.ended()
	case errors.Is(own, zk.ErrBadVersion):
		c.end(sentinel.ErrDeleted) // unless rewritten has ended it with another cause
		return nil, c.ended()
	}
	responses = responses[1:]
	for i, op := range ops {
		// Operations after the failed one have an error too, as the server did not try them.
		if i < len(responses) && responses[i].Error != nil {
			return responses, op.fail(err)
		}
	}
	return responses, fail
}

// An operation is one request of a transaction.
type operation struct {
	kind    string
	path    *string // of request
	request any     // a pointer to one of the ZooKeeper client's requests
	size    int     // of request, apart from its path, in bytes
}

func (o operation) fail(err error) error {
	return &Error{Op: "commit", Path: zkpath.Abridged(*o.path), Err: fmt.Errorf("%s: %w", o.kind, err)}
}

// parseOps returns copies of ops with the namespace in front of their paths, for a transaction that begins with a check of own. It
// rejects values that are no operations, and operations that a server would answer by
// dropping the connection. Its error is an *Error where an operation has a path.
func parseOps(namespace, own string, ops []any) ([]operation, error) {
	parsed := make([]operation, len(ops))
	size := len(own) + 64
	for i, op := range ops {
		o, err := parseOp(op)
		if err != nil {
			return nil, err
		}
		if err := o.place(namespace); err != nil {
			return nil, err
		}
		parsed[i] = o
		size += len(*o.path) + o.size + 64 // more than the encoded numbers and lengths take
	}
	if size > zkpath.MaxTransaction {
		return nil, fmt.Errorf("operations of %d bytes are over the limit of %d for a transaction", size, zkpath.MaxTransaction)
	}
	return parsed, nil
}

// parseOp copies an operation. If op is a value, the error names the pointer to pass.
func parseOp(op any) (operation, error) {
	switch op := op.(type) {
	case *zk.CreateRequest:
		if op != nil {
			return createOf(*op), nil
		}
	case *zk.SetDataRequest:
		if op != nil {
			return setOf(*op), nil
		}
	case *zk.DeleteRequest:
		if op != nil {
			return deleteOf(*op), nil
		}
	case *zk.CheckVersionRequest:
		if op != nil {
			return checkOf(*op), nil
		}
	case zk.CreateRequest:
		return operation{}, createOf(op).fail(wantPointer(op))
	case zk.SetDataRequest:
		return operation{}, setOf(op).fail(wantPointer(op))
	case zk.DeleteRequest:
		return operation{}, deleteOf(op).fail(wantPointer(op))
	case zk.CheckVersionRequest:
		return operation{}, checkOf(op).fail(wantPointer(op))
	default:
		return operation{}, fmt.Errorf("an operation is a %T: pass a *zk.CreateRequest, *zk.SetDataRequest, *zk.DeleteRequest or *zk.CheckVersionRequest", op)
	}
	return operation{}, fmt.Errorf("an operation is a nil %T", op)
}

func wantPointer(op any) error { return fmt.Errorf("pass a pointer, a *%T instead of a %T", op, op) }

func createOf(r zk.CreateRequest) operation {
	size := len(r.Data)
	for _, acl := range r.Acl {
		size += len(acl.Scheme) + len(acl.ID) + 12
	}
	return operation{kind: "create", path: &r.Path, request: &r, size: size}
}

func setOf(r zk.SetDataRequest) operation {
	return operation{kind: "set data", path: &r.Path, request: &r, size: len(r.Data)}
}

func deleteOf(r zk.DeleteRequest) operation {
	return operation{kind: "delete", path: &r.Path, request: &r}
}

func checkOf(r zk.CheckVersionRequest) operation {
	return operation{kind: "check version", path: &r.Path, request: &r}
}

// place checks the path and puts the namespace in front of it: a path that is not
// absolute would lead out of the namespace.
func (o operation) place(namespace string) error {
	path := *o.path
	if create, ok := o.request.(*zk.CreateRequest); ok && create.Flags&zk.FlagSequence != 0 && path != "" {
		// The server appends a number, so that the name before it may be empty.
		path += "0"
	}
	if path != "/" {
		if zkpath.Check(path) != nil {
			return o.fail(zkpath.Check(*o.path))
		}
		*o.path = namespace + *o.path
		if err := zkpath.CheckSize(*o.path); err != nil {
			return o.fail(err)
		}
		return nil
	}
	*o.path = zkpath.Full(namespace, path)
	return nil
}
