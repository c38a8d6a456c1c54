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
