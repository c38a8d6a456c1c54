// SPDX-License-Identifier: Apache-2.0

// Package audit records the actions that change or try to change locks, as one JSON object in each row.
package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// An Event is one action and its outcome. It contains no secret: no bearer token and no lock token.
type Event struct {
	Time      time.Time `json:"time"` // by the clock of this replica
	Action    string    `json:"action"`
	Principal string    `json:"principal,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Key       string    `json:"key,omitempty"`
	Owner     string    `json:"ownerId,omitempty"`
	RequestID string    `json:"requestId,omitempty"`
	Token     string    `json:"fencingToken,omitempty"`
	Mode      string    `json:"mode,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	Status    int       `json:"status,omitempty"` // HTTP
	Code      string    `json:"code,omitempty"`   // of the problem
	Remote    string    `json:"remote,omitempty"`
	Call      string    `json:"call,omitempty"` // the X-Request-Id of the answer, which the log has too
	Detail    string    `json:"detail,omitempty"`
}

// A Log writes events.
type Log struct{ w io.Writer }

// New returns a Log that writes to w. Each event is one Write, which must be safe for concurrent use, as that of a file
// is.
func New(w io.Writer) *Log { return &Log{w: w} }

// Write appends one event. After an error the event may be missing or incomplete.
func (l *Log) Write(e Event) error {
	row, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	if _, err := l.w.Write(append(row, '\n')); err != nil {
		return fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return nil
}
