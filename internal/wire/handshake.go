// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
)

// ErrUnanswered reports that a server accepted the connection and did not answer. It may
// still have received the handshake, and believe the session to be alive.
var ErrUnanswered = errors.New("accepted the connection and did not answer the handshake")

// ErrHungUp reports that a server ended the connection in place of an answer to the handshake: it does not serve.
var ErrHungUp = errors.New("closed the connection during the handshake: not serving (no quorum, read-only) or behind what this session has seen (lost its data)")

// explainHandshake returns the likely reason why a server did not answer.
func explainHandshake(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, io.EOF):
		return ErrHungUp
	case errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: %w", ErrHungUp, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %w", ErrUnanswered, err)
	}
	return fmt.Errorf("handshake: %w", err)
}
