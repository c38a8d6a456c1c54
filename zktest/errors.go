// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/zktest/internal/wire"
)

// Why something could not be done behind the clients' backs, or why a transaction was
// refused: for errors.Is.
var (
	ErrNoNode     = errors.New("node does not exist")
	ErrNodeExists = errors.New("node exists")
	ErrNotEmpty   = errors.New("node has children")
	ErrNoSession  = errors.New("session does not exist")
	ErrNoQuorum   = errors.New("no leader with a quorum")
)

// Further errors that a server answers, by the names that ZooKeeper gives them: for
// Rule.Fail, and for errors.Is on Commit.Err.
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

// An OpError says what could not be done behind the clients' backs, with what, and why.
type OpError struct {
	Op, Path string
	Err      error
}

func (e *OpError) Error() string { return fmt.Sprintf("zktest: %s %s: %v", e.Op, e.Path, e.Err) }

// Unwrap is the reason.
func (e *OpError) Unwrap() error { return e.Err }

// failed is the error of an operation that a server has answered with a code.
func failed(op, path string, code wire.Code) error {
	if code == wire.OK {
		return nil
	}
	return &OpError{Op: op, Path: path, Err: asError(code)}
}

// asError is what users see of a code: its error where it has one, and otherwise one
// that says ZooKeeper's name for it.
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

// codeOf is the code that a server answers for an error, OK if there is none.
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
