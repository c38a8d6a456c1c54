// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockkeeper/lockkeeper/internal/sentinel"
	"github.com/lockkeeper/lockkeeper/internal/session"
	"github.com/lockkeeper/lockkeeper/internal/zkpath"
)

// Commit carries out operations, whose paths are below namespace, in one transaction with a check that the claim's own node
// exists: see recipes.Claim.
func (c *Claim) Commit(ctx context.Context, namespace string, ops []any) ([]zk.MultiResponse, error) {
	fail := func(err error) ([]zk.MultiResponse, error) { return nil, c.fail("commit", err) }
	if ctx == nil {
		return fail(sentinel.ErrNilContext)
	}
	if err := c.Err(); err != nil {
		return nil, err
	}
	parsed, err := parseOps(namespace, c.node.Path, ops)
	if err != nil {
		return nil, c.commitFailed(err)
	}
	responses, err := c.sendCommit(ctx, parsed)
	cause, again := c.overwritten(responses, err)
	for again {
		responses, err = c.sendCommit(ctx, parsed)
		cause, again = c.overwritten(responses, err)
	}
	switch session.OutcomeOf(err) {
	case session.Done:
		responses = responses[1:]
		for i := range responses {
			responses[i].String = strings.TrimPrefix(responses[i].String, namespace)
		}
		return responses, nil
	case session.Refused:
		return c.refused(parsed, responses, err, cause)
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
	own := &zk.CheckVersionRequest{Path: c.node.Path, Version: c.node.Version()}
	requests := []any{own}
	for _, op := range ops {
		requests = append(requests, op.request)
	}
	return session.CallAs(ctx, c.session.Session, session.Holder, func(conn *zk.Conn) ([]zk.MultiResponse, error) {
		return conn.Multi(requests...)
	})
}

// overwritten returns why the claim has ended if the transaction was refused because its node was overwritten. again is set if the claim
// was only downgraded after the version of its node was read.
func (c *Claim) overwritten(responses []zk.MultiResponse, err error) (cause error, again bool) {
	if err == nil || len(responses) == 0 || !errors.Is(responses[0].Error, zk.ErrBadVersion) {
		return nil, false
	}
	_, cause = c.session.MarkOverwritten(c.node)
	return cause, cause == nil
}

// refused returns the result of a transaction that the server refused with err. The first of
// responses is the result of the check of the claim's own node, and overwritten why the claim has ended if that node was overwritten.
func (c *Claim) refused(ops []operation, responses []zk.MultiResponse, err, overwritten error) ([]zk.MultiResponse, error) {
	fail := c.fail("commit", err)
	switch {
	case errors.Is(err, zk.ErrSessionExpired):
		c.session.End(session.ErrExpired)
		return nil, c.EndLost(session.ErrExpired)
	case len(responses) == 0:
		return nil, fail
	}
	switch own := responses[0].Error; {
	case errors.Is(own, zk.ErrNoNode):
		c.session.MarkLost(c.node)
		return nil, c.EndLost(sentinel.ErrDeleted)
	case errors.Is(own, zk.ErrBadVersion):
		return nil, c.EndLost(overwritten)
	}
	responses = responses[1:]
	for i, op := range ops {
		// Operations after the failed one have an error too, as the server did not try them.
		if i < len(responses) && responses[i].Error != nil {
			return responses, c.commitFailed(op.fail(err))
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
	return operationError{zkpath.Abridged(*o.path), fmt.Errorf("%s: %w", o.kind, err)}
}

// An operationError is the error of one operation of a transaction.
type operationError struct {
	path string
	error
}

// commitFailed returns the error of Commit for the error of its operations, or of one of them.
func (c *Claim) commitFailed(err error) error {
	var of operationError
	if errors.As(err, &of) {
		return c.session.Client().Fail("commit", of.path, of.error)
	}
	return c.fail("commit", err)
}

// parseOps returns copies of ops with the namespace in front of their paths, for a transaction that begins with a check of own. It
// rejects values that are no operations, and operations that a server would answer by
// dropping the connection. Its error is an operationError where an operation has a path.
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

// createOf copies what the request points to: it may be sent after Commit has returned.
func createOf(r zk.CreateRequest) operation {
	r.Data, r.Acl = bytes.Clone(r.Data), slices.Clone(r.Acl)
	size := len(r.Data)
	for _, acl := range r.Acl {
		size += len(acl.Scheme) + len(acl.ID) + 12
	}
	return operation{kind: "create", path: &r.Path, request: &r, size: size}
}

func setOf(r zk.SetDataRequest) operation {
	r.Data = bytes.Clone(r.Data)
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
