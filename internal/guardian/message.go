// SPDX-License-Identifier: Apache-2.0

package guardian

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// version is the version of the messages: a parent and a sidecar may be of different releases.
const version = 1

// A kind is what a parent asks for.
type kind string

const (
	hello    kind = "hello"    // the first message, with the pidfd of the parent
	rehearse kind = "rehearse" // Rehearse
	guard    kind = "guard"    // close the session after the death of the parent
	forget   kind = "forget"   // the session has ended
	group    kind = "group"    // kill a process group first
)

// A message is a request of a parent, or the answer of a guardian, which has the same number.
type message struct {
	Number  int64    `json:"number"`
	Kind    kind     `json:"kind,omitempty"`
	Version int      `json:"version,omitempty"` // of hello
	Session *Session `json:"session,omitempty"`
	Group   int      `json:"group,omitempty"` // see Guard.Group
	Err     string   `json:"err,omitempty"`   // of an answer: why the request was refused
}

// encode returns the message as a line.
func (m message) encode() ([]byte, error) {
	text, err := json.Marshal(m)
	return append(text, '\n'), err
}

// maxLine bounds a message: a connect string of a thousand servers fits.
const maxLine = 1 << 17

// lines collects what was read, until it is a whole message.
type lines struct{ unread []byte }

// decode appends what was read, and calls handle with each message that is complete. A part of a message remains: its sender
// may have died.
func (l *lines) decode(read []byte, handle func(message)) error {
	l.unread = append(l.unread, read...)
	for {
		line, rest, complete := bytes.Cut(l.unread, []byte("\n"))
		switch {
		case !complete && len(line) > maxLine:
			return errors.New("message is too long")
		case !complete:
			return nil
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("decode message: %w", err)
		}
		l.unread = rest
		handle(m)
	}
}
