// SPDX-License-Identifier: Apache-2.0

package history

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// maxLine bounds a line of a history, in bytes.
const maxLine = 1 << 20

// Read reads a history: one JSON event per line. It skips empty lines. It returns an error, which names the line, for a
// line that is no event, an unknown field, and a missing field that the event's kind requires.
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
				err = errors.New("more than one event on the line")
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

// Write writes events in the format of Read, one per line.
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

// InOrder sorts events by their instants and numbers them: a history.
func InOrder(events []Event) []Event {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	for i := range events {
		events[i].Line = i + 1
	}
	return events
}
