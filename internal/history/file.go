// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of a history, in bytes.
const maxLine = 1 << 20

// Read reads a history: one event a line, in JSON. Empty lines are skipped. An error names the line: a field that is
// unknown, or one that the event's kind must have and that is missing, is one.
func Read(r io.Reader) ([]Event, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	var events []Event
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		var e Event
		err := decoder.Decode(&e)
		if err == nil {
			if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
				err = errors.New("more than one event")
			}
		}
		if err == nil {
			err = e.check()
		}
		if err != nil {
			return nil, fmt.Errorf("history: line %d: %w", n, err)
		}
		e.Line = n
		events = append(events, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return events, nil
}

// Write writes what Read reads.
func Write(w io.Writer, events []Event) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("history: write %v: %w", e, err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("history: write: %w", err)
	}
	return nil
}
