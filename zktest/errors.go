// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// The causes of an OpError and of a refused transaction (Commit.Err), for errors.Is.
var (
	ErrNoNode     = errors.New("node does not exist")
	ErrNodeExists = errors.New("node exists")
	ErrNotEmpty   = errors.New("node has children")
	ErrNoSession  = errors.New("session does not exist")
	ErrNoQuorum   = errors.New("no leader with a quorum")
)

// Further errors that a server answers, by their ZooKeeper names: for Rule.Fail, and for
// errors.Is on Commit.Err.
var (
	ErrSystemError             error = wire.SystemError
	ErrMarshallingError        error = wire.MarshallingError
	ErrUnimplemented           error = wire.Unimplemented
	ErrOperationTimeout        error = wire.OperationTimeout
	ErrBadArguments            error = wire.BadArguments
	ErrNoAuth                  error = wire.NoAuth
	ErrBadVersion              error = wire.BadVersion
	ErrNoChildrenForEphemerals error = wire.NoChildrenForEphemerals
	ErrSessionExpired          error = wire.SessionExpired
	ErrInvalidACL              error = wire.InvalidACL
	ErrAuthFailed              error = wire.AuthFailed
	ErrSessionMoved            error = wire.SessionMoved
	ErrNotReadOnly             error = wire.NotReadOnly
	ErrNoWatcher               error = wire.NoWatcher
	ErrThrottled               error = wire.ThrottledOp
	ErrQuotaExceeded           error = wire.QuotaExceeded
)

// An OpError is the failure of an operation that the test itself asked of the ensemble,
// such as Ensemble.Delete. Path is the operation's object: a node, or a session.
type OpError struct {
	Op, Path string
	Err      error
}

// Error returns the operation, its object and the cause.
func (e *OpError) Error() string { return fmt.Sprintf("zktest: %s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// failed returns the error of an operation that a server has answered with code, nil
// for OK.
func failed(op, path string, code wire.Code) error {
	if code == wire.OK {
		return nil
	}
	return &OpError{Op: op, Path: path, Err: asError(code)}
}

// asError returns the exported error for a code: the sentinel if there is one, otherwise
// the code itself, whose text is ZooKeeper's name for it.
func asError(code wire.Code) error {
	switch code {
	case wire.OK:
		return nil
	case wire.NoNode:
		return ErrNoNode
	case wire.NodeExists:
		return ErrNodeExists
	case wire.NotEmpty:
		return ErrNotEmpty
	}
	return code
}

// codeOf returns the code that a server answers for an error, OK if there is none.
func codeOf(err error) wire.Code {
	for code, known := range map[wire.Code]error{
		wire.NoNode: ErrNoNode, wire.NodeExists: ErrNodeExists, wire.NotEmpty: ErrNotEmpty,
	} {
		if errors.Is(err, known) {
			return code
		}
	}
	var code wire.Code
	if errors.As(err, &code) {
		return code
	}
	return wire.OK
}
