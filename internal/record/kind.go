// SPDX-License-Identifier: Apache-2.0

// Package record has nodes whose data is a record, which is written if it has not changed since it was read.
package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
)

// A Kind is a kind of record: a JSON object of the fields of T and of the number of its format, of which there is one so
// far. T has a field that is in each record.
type Kind[T any] struct {
	Name  string        // with its article, for errors
	Check func(T) error // returns what is wrong with a record; nil if nothing can be
}

// A foreignError reports that a node's data is no record of its kind, or has a format that this version does not know.
type foreignError struct{ error }

// IsForeign reports whether err says that a node has data that is no record of its kind.
func IsForeign(err error) bool { return errors.As(err, new(foreignError)) }

// Encode returns the data of a node with the record.
func (k Kind[T]) Encode(v T) ([]byte, error) {
	fields, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", k.Name, err)
	}
	return append([]byte(`{"format":1,`), fields[1:]...), nil
}

// Decode returns the record that a node's data is. IsForeign reports true for its error.
func (k Kind[T]) Decode(data []byte) (T, error) {
	var none, v T
	var head struct {
		Format int `json:"format"`
	}
	err := json.Unmarshal(data, &head)
	switch {
	case err != nil || head.Format == 0:
		err = fmt.Errorf("the node's data is not %s: %.40q", k.Name, data)
	case head.Format != 1:
		err = fmt.Errorf("the node holds %s in format %d: this version supports format 1", k.Name, head.Format)
	case json.Unmarshal(data, &v) != nil:
		err = fmt.Errorf("the node's data is not %s: %.40q", k.Name, data)
	case k.Check != nil:
		if err = k.Check(v); err != nil {
			err = fmt.Errorf("the node's data is not %s: %w", k.Name, err)
		}
	}
	if err != nil {
		return none, foreignError{err}
	}
	return v, nil
}

// CheckLasting is a Node's Refuse: a node that can vanish by itself is refused.
func CheckLasting(_ context.Context, data []byte, stat *zk.Stat) error {
	switch {
	case stat.EphemeralOwner != 0:
		return errors.New("the node is ephemeral, and would end with a session: use a persistent node")
	case len(data) == 0 && stat.Cversion != 0:
		return errors.New("the node has or had children, and may be a container that the servers remove: delete it, or use a separate path")
	}
	return nil
}
