// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package guardian

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Variable is the environment variable with the socket of a guardian.
const Variable = "LOCKKEEPER_GUARD"

// Unknown is the number of a process group that is about to be started.
const Unknown = -1

var errNotLinux = fmt.Errorf("a guardian needs the pidfds of Linux: %w", errors.ErrUnsupported)

// Main returns: no process is a guardian.
func Main(DialFunc) {}

// Start returns [errors.ErrUnsupported].
func Start(context.Context) (*Guard, error) { return nil, errNotLinux }

// Dial returns [errors.ErrUnsupported].
func Dial(context.Context, string) (*Guard, error) { return nil, errNotLinux }

// Serve returns [errors.ErrUnsupported].
func Serve(context.Context, *net.UnixListener, DialFunc, func(error)) error { return errNotLinux }

func sendHello(*net.UnixConn, []byte) error { return errNotLinux }
