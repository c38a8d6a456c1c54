// SPDX-License-Identifier: Apache-2.0

// Package audit records the actions that change or try to change locks, as one JSON object in each row.
package audit

import (
	"encoding/json"
	"fmt"
	"time"
)

// An Event is one action and its outcome. It contains no secret: no bearer token and no lock token.
type Event struct {
	Time      time.Time `json:"time"` // by the clock of this replica
	Action    string    `json:"action"`
	Principal string    `json:"principal,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Key       string    `json:"key,omitempty"`
	Node      string    `json:"node,omitempty"` // of the contender, in ZooKeeper
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

// encode returns the row of an event.
func (e *Event) encode() ([]byte, error) {
	row, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("audit %s: %w", e.Action, err)
	}
	return append(row, '\n'), nil
}
